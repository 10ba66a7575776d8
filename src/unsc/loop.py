"""Algorithm 2's loop: move forgotten samples to pseudo-labels, a step at a time, until they are forgotten."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from unsc.batches import Batch, pieces
from unsc.logits import all_logits, logits_of
from unsc.progress import Progress, quiet
from unsc.steps import Step
from unsc.targets import pseudo_labels
from unsc.task import Task

Stopped: TypeAlias = Literal["forgotten", "passes", "kl", "nan"]
"""The stopping rule was met; the cap was reached; retained predictions moved too far; outputs are not finite."""

_CHECK_EVERY = 4
_PIECE = 64
"""Forgotten samples to look at before asking whether more are needed."""


@dataclass(frozen=True)
class Schedule:
    """When to stop."""

    batch_size: int
    max_passes: int
    """Over the forgotten samples."""
    stop_mass: float
    """Forgotten once no sample to check is classified as before and its removed classes hold at most this
    probability on average."""
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
    retained_kl: float
    """On as many retained samples as it took to hold it against the limit."""
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


def run_loop(model: nn.Module, task: Task, step: Step, schedule: Schedule, *, progress: Progress = quiet) -> Outcome:
    """Unlearn the forgotten samples of a task in `model`, a copy of its original that `step` changes in place."""
    forgotten, held_out = (b.for_model(model) for b in (task.samples.forget_fit, task.samples.forget_check))
    with torch.no_grad():
        original = all_logits(model, forgotten)
    labels = pseudo_labels(original, task.request.removed(forgotten.labels), targets=task.targets)
    # In random order, since few of them often tell enough.
    held_out = held_out[torch.randperm(len(held_out), generator=torch.Generator().manual_seed(schedule.seed))]
    removed = task.request.removed(held_out.labels)
    outcome, began = Outcome(), time.perf_counter()
    best, best_mass = _state(model), math.inf
    per_pass = -(-len(forgotten) // schedule.batch_size)
    with progress("forgetting", per_pass * schedule.max_passes) as advance:
        for chosen in _order(len(forgotten), schedule, device=forgotten.labels.device):
            step(forgotten[chosen], labels[chosen])
            advance()
            outcome.steps += 1
            last = outcome.steps == per_pass * schedule.max_passes
            if outcome.steps % _CHECK_EVERY and not last:
                continue
            check = _look(model, task, held_out, removed, schedule, outcome.steps)
            outcome.history.append(check)
            outcome.stopped = _verdict(check, schedule)
            if outcome.stopped in ("forgotten", "passes") and check.forget_mass <= best_mass:
                best, best_mass = _state(model), check.forget_mass
            if outcome.stopped != "passes":
                break
    model.load_state_dict(best)
    outcome.passes = round(outcome.steps / per_pass, 2)
    outcome.seconds = time.perf_counter() - began
    return outcome


def _look(model: nn.Module, task: Task, held_out: Batch, removed: Tensor, schedule: Schedule, steps: int) -> Check:
    known, mass = known_until_decided(model, held_out, removed, schedule.stop_mass)
    kl = task.watch.kl_against(model, schedule.max_kl)
    return Check(steps, 100 * known.mean().item(), mass.mean().item(), kl.mean, len(known), kl.error)


@torch.no_grad()
def known_until_decided(model: nn.Module, batch: Batch, removed: Tensor, stop_mass: float) -> tuple[Tensor, Tensor]:
    """Which samples `model` still classifies as a class `removed` (n, classes) for them, and their mass there.

    Both (m,), of the first m samples. It takes all of them to find that none is known and that their mean mass is at
    most `stop_mass`. It takes few to find the contrary: one that is known, or so much mass that the rest, which is
    not negative, cannot bring the mean down again. Either way the decision is the one that all samples give.
    """
    known, mass = [], []
    for piece, gone in zip(pieces(batch, _PIECE), removed.split(_PIECE), strict=True):
        logits = logits_of(model, piece).float()
        known.append(gone.gather(1, logits.argmax(dim=1, keepdim=True))[:, 0].float())
        mass.append((logits.softmax(dim=1) * gone).sum(dim=1))
        if known[-1].any() or not torch.cat(mass).sum() <= stop_mass * len(batch):
            break
    return torch.cat(known), torch.cat(mass)


@torch.no_grad()
def still_known(model: nn.Module, batch: Batch, removed: Tensor) -> tuple[float, float]:
    """Percent of `batch` that `model` classifies as a class `removed` (n, classes) for it, and their mean mass."""
    logits = all_logits(model, batch).float()
    known = removed.gather(1, logits.argmax(dim=1, keepdim=True)).float().mean().item()
    return 100 * known, (logits.softmax(dim=1) * removed).sum(dim=1).mean().item()


def _verdict(check: Check, schedule: Schedule) -> Stopped:
    """Why to stop here, or `passes` to go on until the cap."""
    if not math.isfinite(check.retained_kl + check.forget_mass):
        return "nan"
    if check.retained_kl > schedule.max_kl:
        return "kl"
    forgotten = check.forget_acc == 0 and check.forget_mass <= schedule.stop_mass
    return "forgotten" if forgotten else "passes"


def _order(size: int, schedule: Schedule, *, device: torch.device) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(schedule.seed)
    for _ in range(schedule.max_passes):
        yield from torch.randperm(size, generator=generator).to(device).split(schedule.batch_size)


def _state(model: nn.Module) -> dict[str, Tensor]:
    return {name: t.detach().clone() for name, t in model.state_dict().items()}
