"""Algorithm 2's loop: move forgotten samples to pseudo-labels, a step at a time, until they are forgotten."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from unsc import peers
from unsc.batches import HasSamples
from unsc.looks import Look, look_until
from unsc.on_demand import picked
from unsc.progress import Progress, Shows, quiet
from unsc.steps import Step
from unsc.task import Task
from unsc.watch import Estimate

Stopped: TypeAlias = Literal["forgotten", "passes", "kl", "nan", "undone"]
"""The stopping rule was met; the cap was reached; retained predictions moved too far; outputs are not finite; or little
was gained for what it cost, and the original came back."""


@dataclass(frozen=True)
class Schedule:
    """How long to go on."""

    batch_size: int
    max_passes: int
    """Over the forgotten samples."""
    max_kl: float
    """Retained KL in nats at which the run is stopped and the best state so far restored."""
    seed: int = 0


@dataclass(frozen=True)
class Check:
    """What was measured after so many `steps`; accuracy in percent, KL in nats."""

    steps: int
    forget_acc: float
    """Share of the forgotten samples looked at that are still classified as a removed class."""
    forget_mass: float
    """Mean probability that the network still gives the removed classes on them."""
    distance: float
    """Mean KL of their predictions from their targets, in nats."""
    retained_kl: float
    """On as many retained samples as it took to hold it against the limit; predicted if there are none."""
    forget_samples: int = 0
    """How many forgotten samples were looked at: all of those to check only if they may be forgotten."""
    retained_kl_error: float = 0.0
    """Its standard error."""


@dataclass
class Outcome:
    """What a run did."""

    stopped: Stopped = "passes"
    steps: int = 0
    passes: float = 0.0
    seconds: float = 0.0
    history: list[Check] = field(default_factory=list)
    reached: Look | None = None
    """At all samples to check, where they are forgotten."""
    said: Tensor | None = None
    """The logits of all of them then, (n, classes), in their own order."""


def run_loop(model: nn.Module, task: Task, step: Step, schedule: Schedule, *, progress: Progress = quiet) -> Outcome:
    """Unlearn the forgotten samples of a task in `model`, a copy of its original that `step` changes in place."""
    forgotten = task.samples.forget_fit
    order = torch.randperm(len(task.samples.forget_check), generator=torch.Generator().manual_seed(schedule.seed))
    checked = _in_order(task, order)
    aims, goal = task.aims, task.aims.goal
    outcome, began = Outcome(), time.perf_counter()
    if task.request.kind == "records" and goal.reached(task.look(aims.scores)):  # there is nothing to do
        return Outcome(stopped="forgotten")
    best, least = _state(model), math.inf
    per_pass = -(-len(forgotten) // schedule.batch_size)
    with progress("forgetting", per_pass * schedule.max_passes) as advance:
        for chosen in _order(len(forgotten), schedule):
            if outcome.steps % per_pass == 0:
                step.begin_pass(outcome.steps // per_pass)
            part = peers.own_part(len(chosen)) if step.takes_parts else slice(None)
            targets = aims.fit[chosen][part]
            step(forgotten[chosen[part]].for_model(model), targets)
            advance()
            outcome.steps += 1
            last = outcome.steps == per_pass * schedule.max_passes
            if outcome.steps % min(step.check_every, aims.rule.batches) and not last:
                continue
            look = look_until(model, *checked, partial(goal.refuted, total=len(checked[0])))
            check = _check(look, _cost(model, task, step, schedule.max_kl), outcome.steps)
            outcome.history.append(check)
            if isinstance(advance, Shows):
                advance.show(forget_acc=check.forget_acc, retained_kl=check.retained_kl)
            outcome.stopped = _verdict(check, schedule, goal.reached(look))
            left = goal.left(look).mean().item()
            # What reached the goal is the best, though another state may have had less left by its measure.
            if outcome.stopped == "forgotten" or (outcome.stopped == "passes" and left <= least):
                least = left
                _keep(model, best)
            if outcome.stopped == "forgotten":
                outcome.reached, outcome.said = look, look.logits[order.argsort()]
            if outcome.stopped != "passes":
                break
    model.load_state_dict(best)
    outcome.passes = round(outcome.steps / per_pass, 2)
    outcome.seconds = time.perf_counter() - began
    return outcome


def _in_order(task: Task, order: Tensor) -> tuple[HasSamples, Tensor, Tensor]:
    """The samples to check with what is removed for each and their targets: by chance, since few often tell enough."""
    samples, targets = task.samples.forget_check, task.aims.check
    held_out = picked(samples, order)
    return held_out, task.request.removed(held_out.labels).to(targets.device), targets[order]


def _cost(model: nn.Module, task: Task, step: Step, limit: float) -> Estimate:
    """What retained predictions moved by: measured, or, where there are no retained samples, as the guide predicts."""
    if task.watch.batches:
        return task.watch.kl_against(model, limit, step.seen)
    return Estimate(step.predicted_kl(task.original, model), 0.0, 0)


def _check(look: Look, kl: Estimate, steps: int) -> Check:
    return Check(steps, look.known.percent, look.mass, look.distance, kl.mean, len(look), kl.error)


def _verdict(check: Check, schedule: Schedule, reached: bool) -> Stopped:
    """Why to stop here, or `passes` to go on until the cap."""
    if not math.isfinite(check.retained_kl + check.forget_mass):
        return "nan"
    if check.retained_kl > schedule.max_kl:
        return "kl"
    return "forgotten" if reached else "passes"


def _order(size: int, schedule: Schedule) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(schedule.seed)
    for _ in range(schedule.max_passes):
        yield from torch.randperm(size, generator=generator).split(schedule.batch_size)


def _state(model: nn.Module) -> dict[str, Tensor]:
    return {name: t.detach().clone() for name, t in model.state_dict().items()}


@torch.no_grad()
def _keep(model: nn.Module, state: dict[str, Tensor]) -> None:
    """Overwrite what is kept of a network: the memory is there already."""
    for name, t in model.state_dict().items():
        state[name].copy_(t)
