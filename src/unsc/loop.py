"""Algorithm 2's loop: move forgotten samples to pseudo-labels, a step at a time, until they are forgotten."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from unsc.batches import Batch, join
from unsc.logits import all_logits
from unsc.progress import Progress, quiet
from unsc.request import Request
from unsc.targets import Targets, pseudo_labels
from unsc.watch import Watch

Step = Callable[[Batch, Tensor], None]

_CHECK_EVERY = 4


@dataclass(frozen=True)
class Schedule:
    """How long to go on."""

    batch_size: int
    max_passes: int
    """Over the forgotten samples."""
    stop_mass: float
    """Forgotten once no watched sample is classified as before and its removed classes hold at most this
    probability on average."""
    max_kl: float
    """Retained KL in nats at which the run is stopped and the best state so far restored."""
    seed: int = 0


@dataclass
class Outcome:
    """What a run did; accuracy in percent, KL in nats."""

    stopped: str = "passes"
    """`forgotten`, `passes` (the cap was reached), `kl` (retained predictions moved too far) or `nan`."""
    steps: int = 0
    passes: float = 0.0
    seconds: float = 0.0
    forget_acc: float = 100.0
    """Share of watched forgotten samples still classified as a removed class."""
    forget_mass: float = 1.0
    """Mean probability that the network still gives the removed classes on them."""
    retained_kl: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)


def run(
    model: nn.Module,
    forgotten: Batch,
    watched: Batch,
    step: Step,
    watch: Watch,
    *,
    request: Request,
    targets: Targets,
    schedule: Schedule,
    progress: Progress = quiet,
) -> Outcome:
    """Unlearn `forgotten` in `model`, which `step` changes in place; `watched` says when they are forgotten."""
    forgotten, watched = forgotten.for_model(model), watched.for_model(model)
    with torch.no_grad():
        original = all_logits(model, forgotten)
    labels = pseudo_labels(original, request.removed(forgotten.labels), targets=targets)
    removed = request.removed(watched.labels)
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
            _measure(outcome, model, watched, removed, watch)
            if not math.isfinite(outcome.retained_kl + outcome.forget_mass):
                outcome.stopped = "nan"
            elif outcome.retained_kl > schedule.max_kl:
                outcome.stopped = "kl"
            else:
                if outcome.forget_mass <= best_mass:
                    best, best_mass = _state(model), outcome.forget_mass
                if outcome.forget_acc == 0 and outcome.forget_mass <= schedule.stop_mass:
                    outcome.stopped = "forgotten"
            if outcome.stopped != "passes":
                break
    model.load_state_dict(best)
    outcome.passes = round(outcome.steps / per_pass, 2)
    outcome.seconds = time.perf_counter() - began
    return outcome


def _order(size: int, schedule: Schedule, *, device: torch.device) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(schedule.seed)
    for _ in range(schedule.max_passes):
        yield from torch.randperm(size, generator=generator).to(device).split(schedule.batch_size)


@torch.no_grad()
def still_known(model: nn.Module, watched: Batch, removed: Tensor) -> tuple[float, float]:
    """Percent of `watched` that `model` classifies as a class `removed` (n, classes) for it, and their mean mass."""
    logits = all_logits(model, watched).float()
    known = removed.gather(1, logits.argmax(dim=1, keepdim=True)).float().mean().item()
    return 100 * known, (logits.softmax(dim=1) * removed).sum(dim=1).mean().item()


def _measure(outcome: Outcome, model: nn.Module, watched: Batch, removed: Tensor, watch: Watch) -> None:
    outcome.forget_acc, outcome.forget_mass = still_known(model, watched, removed)
    outcome.retained_kl = watch.kl(model)
    names = ("steps", "forget_acc", "forget_mass", "retained_kl")
    outcome.history.append({name: getattr(outcome, name) for name in names})


def _state(model: nn.Module) -> dict[str, Tensor]:
    return {name: t.detach().clone() for name, t in model.state_dict().items()}


def split_watched(batches: Sequence[Batch], share: float, most: int, seed: int) -> tuple[Batch, Batch]:
    """Forgotten samples to learn from, and those, at most `most`, that only tell when to stop."""
    whole = join(batches)
    order = torch.randperm(len(whole), generator=torch.Generator().manual_seed(seed))
    if share == 0:
        return whole, whole
    # A tenth of a small class is too few samples to tell anything: take up to a quarter of it.
    held = min(most, max(1, int(share * len(whole)), min(64, len(whole) // 4)))
    if held == len(whole):
        return whole, whole
    return whole[order[held:]], whole[order[:held]]
