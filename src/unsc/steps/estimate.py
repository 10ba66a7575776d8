"""Estimate the retained curvature from as many samples as it takes.

The moment of all retained data is wanted, not that of each class, so the number of samples does not grow with the
number of classes: they are taken from all classes in turn. Whether they were enough, other samples tell. A poor
estimate does not show in what it predicts, since the damping makes up for it, but in steps that buy less: as long as
four times the samples buy a layer's first step clearly more forgetting for its cost, four times as many are taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unsc import peers
from unsc.batches import Batch
from unsc.collect import RowBudget, collect
from unsc.errors import InvalidData
from unsc.layers import Layer, Weights
from unsc.moments import Moment
from unsc.progress import Advance, Progress, quiet
from unsc.sharded import is_sharded
from unsc.steps.curvature import LayerCurvature, RetainedCurvature, curvature_of
from unsc.steps.factors import LowRank, Matrix
from unsc.steps.sensitivity import sensitivities
from unsc.task import BATCH, RetainFit, Task


@dataclass(frozen=True)
class Effort:
    """How much of the retained data to look at."""

    samples: int = 256
    """Samples to fit at first, of all classes together; each layer takes four times as many at least, unless nothing is
    `improvement` enough."""
    check_samples: int = 256
    """Other samples that the damping is chosen on."""
    sensitivity_samples: int = 128
    rows_per_column: int | None = 16
    """Rows that a moment is made from, for each of its columns; None for all."""
    check_rows_per_column: int | None = 16
    """The same of the samples that the damping is chosen on."""
    improvement: float = 1.5
    """Times more forgetting for its cost that four times the samples must buy, for yet more to be taken; infinite if
    the first ones are all."""


SPARING = Effort()
"""What an estimate needs."""
BRIEF = Effort(sensitivity_samples=64, rows_per_column=8, check_rows_per_column=2, improvement=math.inf)
"""What it needs for a run of few long steps, without a look at whether more would be better: what those steps cost is
measured, and a better estimate saves none of them."""
EVERYTHING = Effort(samples=1 << 62, check_samples=1 << 62, rows_per_column=None, check_rows_per_column=None)
"""All samples of a task, and all of their rows."""
_SENSITIVITY_BATCH = 16
_FIT, _CHECK, _LABELS = range(3)
"""Streams of random numbers: rows of samples to fit and to check, and labels that are drawn for gradients."""
MORE, _WORTH_A_LOOK = 4, 1.25
"""Times more samples that another estimate takes, and that must be left for it: it costs as much as the last one."""


@dataclass(frozen=True)
class _Order:
    """Samples to fit, in the order in which they are taken."""

    positions: Tensor
    labels: Tensor

    def read(self, fit: RetainFit, first: int, last: int) -> Iterator[tuple[int, Batch]]:
        """This rank's batches of those from `first` up to `last`, each with the position of its first sample."""
        for chosen in peers.mine(torch.arange(first, last).split(BATCH)):
            batch = fit.read(self.positions[chosen])
            strange = (batch.labels.cpu() != self.labels[chosen]).nonzero().flatten().tolist()
            if strange:
                said, is_ = int(self.labels[chosen][strange[0]]), int(batch.labels[strange[0]])
                raise InvalidData(f"labels says {said} where the data set gives {is_}; leave labels out, or correct it")
            yield int(chosen[0]), batch


def in_turn(positions: Mapping[int, Tensor], generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """All `positions` (by class) and their labels, (n,): one of each class, then another of each, and so on.

    Within a turn classes come in random order, so that any beginning is as balanced as its length allows.
    """
    everything = torch.cat([*positions.values(), torch.zeros(0, dtype=torch.long)])
    labels = torch.cat([torch.full((len(own),), k) for k, own in positions.items()] or [everything])
    turns = torch.cat([torch.arange(len(own)) for own in positions.values()] or [everything])
    order = (turns + torch.rand(len(turns), generator=generator, dtype=torch.float64)).argsort()
    return everything[order], labels[order]


def estimate(
    task: Task, gradients: Mapping[str, Matrix], effort: Effort = SPARING, *, progress: Progress = quiet
) -> RetainedCurvature:
    """The curvature of a task, for steps along `gradients` (by layer) of the forget loss."""
    generator = torch.Generator().manual_seed(task.seed)
    fit, held_out = task.samples.retain_fit, task.samples.retain_check[: -(-effort.check_samples // BATCH)]
    order = _Order(*in_turn(fit.positions, generator))
    check = _Moments(task, effort.check_rows_per_column, stream=_CHECK)
    check.add(task.layers, peers.mine(enumerate(held_out)), sum(map(len, held_out)))
    moments = _Moments(task, effort.rows_per_column, stream=_FIT)
    seen, goal = 0, min(effort.samples, len(order.labels))
    with progress("moments", goal) as advance:
        task.said.keep(order.positions[:goal], moments.add(task.layers, order.read(fit, seen, goal), goal, advance))
    drawn = fit.positions_drawn(effort.sensitivity_samples, _SENSITIVITY_BATCH, generator)
    # Of a sharded network, gradients are those of all ranks, which each take a part of every batch.
    numbered = enumerate(drawn) if is_sharded(task.original) else peers.mine(enumerate(drawn))
    own = ((number, fit.read(chosen)) for number, chosen in numbered)
    batches = _reseeding(generator, task.seed, _LABELS, own)
    b = sensitivities(task.original, task.layers, batches, moments.by_layer, goal, task.watch, generator=generator)
    made: dict[str, LayerCurvature] = {}
    bought = dict.fromkeys(moments.by_layer, 0.0)
    doubtful: Sequence[Layer] = task.layers
    weights = Weights(task.original, task.layers)
    while True:
        found, now = _assembled(doubtful, moments, check, b, gradients, weights)
        made |= found
        doubtful = [x for x in doubtful if now[x.name] > effort.improvement * bought[x.name]]
        if not doubtful or math.isinf(effort.improvement) or len(order.labels) < _WORTH_A_LOOK * goal:
            return RetainedCurvature({x.name: made[x.name] for x in task.layers}, goal)
        bought |= now
        seen, goal = goal, min(MORE * goal, len(order.labels))
        with progress("moments", goal - seen) as advance:
            said = moments.add(doubtful, order.read(fit, seen, goal), goal - seen, advance)
        task.said.keep(order.positions[seen:goal], said)


def _assembled(
    layers: Sequence[Layer],
    fitted: _Moments,
    held_out: _Moments,
    sensitivity: Mapping[str, float],
    gradients: Mapping[str, Matrix],
    weights: Weights,
) -> tuple[dict[str, LayerCurvature], dict[str, float]]:
    """Curvatures and what their first steps buy, by layer. Eigendecompositions are shared out over ranks."""
    owned = peers.owners({x.name: x.groups * float(x.columns) ** 3 for x in layers})
    whole = {
        name: (fitted.by_layer[name].total_at(owner), held_out.by_layer[name].total_at(owner))
        for name, owner in owned.items()
    }
    samples = fitted.samples, held_out.samples
    rows = {x.name: _whole_at(owned[x.name], x, gradients[x.name], weights) for x in layers}
    along = {name: whole_rows for name, whole_rows in rows.items() if whole_rows is not None}

    def work(name: str) -> tuple[LayerCurvature, float]:
        return curvature_of(*whole[name], samples, sensitivity[name], along[name])

    found = peers.worked_out(owned, work)
    return {name: x for name, (x, _) in found.items()}, {name: worth for name, (_, worth) in found.items()}


def _whole_at(owner: int, layer: Layer, gradient: Matrix, weights: Weights) -> Matrix | None:
    """All rows of a gradient, on the rank `owner`; factors are those of a single process."""
    return gradient if isinstance(gradient, LowRank) else weights.whole_at(owner, layer, gradient)


def _reseeding(
    generator: torch.Generator, seed: int, stream: int, batches: Iterable[tuple[int, Batch]]
) -> Iterator[Batch]:
    """Numbered batches, before each of which the generator gets the seed of that batch, whoever has the others."""
    for number, batch in batches:
        generator.manual_seed(peers.seed_from(seed, stream, number))
        yield batch


class _Moments:
    """Moments by layer, to which samples are added; under several ranks, this rank's part of them."""

    def __init__(self, task: Task, rows_per_column: int | None, *, stream: int) -> None:
        """`stream` tells random numbers of one set of samples from those of another."""
        self.task, self.rows_per_column, self.stream = task, rows_per_column, stream
        self.generator = torch.Generator()
        self.by_layer = {x.name: Moment(x.groups, x.columns) for x in task.layers}
        self.samples = 0

    def add(
        self,
        layers: Sequence[Layer],
        batches: Iterable[tuple[int, Batch]],
        samples: int,
        advance: Advance = lambda: None,
    ) -> Tensor:
        """Add this rank's numbered `batches`, of so many `samples` on all ranks, to the moments of some `layers`.

        Gives what the network said of them, (n, classes), in their order.
        """
        said: list[Tensor] = []

        def counted() -> Iterator[Batch]:
            for batch in _reseeding(self.generator, self.task.seed, self.stream, batches):
                yield batch
                for _ in range(len(batch)):
                    advance()

        per_column = self.rows_per_column
        rows = None if per_column is None else RowBudget(samples, self.generator, per_column)
        model, chunk_bytes = self.task.original, self.task.chunk_bytes
        collect(model, layers, counted(), into=self.by_layer, rows=rows, chunk_bytes=chunk_bytes, said=said.append)
        self.samples += samples
        return torch.cat(said) if said else torch.zeros(0, 0)
