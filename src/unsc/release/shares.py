"""What single samples bring to the statistics: sums that add up, and that can be taken out again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset

from unsc.batches import Batch, join
from unsc.datasets import read
from unsc.layers import Draw, Layer, observe, parameters_of
from unsc.logits import check_logits, logits_of
from unsc.moments import Moment
from unsc.progress import Progress, quiet
from unsc.release.plan import Plan, Role
from unsc.steps.curvature import gradients_of

_BATCH = 64
_CLOSE = 1e-4
"""How far, relative to its size, a moment of a batch may be from the sum of those of its samples, for rounding."""


@dataclass(frozen=True)
class Sums:
    """Of some samples: moments of their rows, and squared gradients of their predictions, by layer."""

    fit: dict[str, Moment]
    check: dict[str, Moment]
    fisher: dict[str, float]
    """Squared norm of the gradient of each prediction by the layer's matrix, summed over samples."""
    samples: dict[str, int] = field(default_factory=lambda: {"fit": 0, "check": 0, "fisher": 0})

    @classmethod
    def empty(cls, layers: Sequence[Layer]) -> Sums:
        fit, check = ({x.name: Moment(x.groups, x.columns) for x in layers} for _ in range(2))
        return cls(fit, check, dict.fromkeys((x.name for x in layers), 0.0))


@dataclass(frozen=True)
class Sharing:
    """How the shares of samples are computed: always the same way, so that they can be taken out."""

    model: nn.Module
    """In evaluation mode."""
    layers: tuple[Layer, ...]
    plan: Plan
    temperature: float
    """What predictions are softened by for their gradients."""
    batch_size: int
    """1 if samples of a batch have to do with each other, or a layer's rows do not come sample by sample."""

    def of(
        self, dataset: Dataset[object], positions: Sequence[int], ids: Sequence[str], *, progress: Progress = quiet
    ) -> Sums:
        """The sums over the samples at `positions` of a data set, with their `ids`."""
        sums = Sums.empty(self.layers)
        with progress("statistics", len(positions)) as advance:
            for own_ids, batch, role in self._batches(dataset, positions, ids):
                moments = sums.fit if role == "fit" else sums.check
                self.add_rows(moments, batch, own_ids, role)
                sums.samples[role] += len(batch)
                if role == "check":
                    self._add_gradients(sums, batch, own_ids)
                for _ in own_ids:
                    advance()
        return sums

    def add_rows(self, moments: dict[str, Moment], batch: Batch, ids: tuple[str, ...], role: Role) -> None:
        """Add the drawn rows of a batch."""

        def draw(layer: Layer, rows: int) -> Draw | None:
            return self.plan.draw(layer, rows, ids, role)

        def receive(layer: Layer, rows: Tensor) -> None:
            moments[layer.name].update(rows)

        with observe(self.model, self.layers, receive, draw=draw):
            check_logits(logits_of(self.model, batch.for_model(self.model)))

    def _batches(
        self, dataset: Dataset[object], positions: Sequence[int], ids: Sequence[str]
    ) -> Iterator[tuple[tuple[str, ...], Batch, Role]]:
        """Batches of one role whose samples are of the same shape, so that none is filled up for another's sake."""
        waiting: dict[tuple[Role, object], list[tuple[str, Batch]]] = {}
        for position, id_ in zip(positions, ids, strict=True):
            sample = read(dataset, [position])
            role = self.plan.role(id_, int(sample.labels[0]))
            if role == "none":
                continue
            kind = (role, _shapes(sample.inputs))
            waiting.setdefault(kind, []).append((id_, sample))
            if len(waiting[kind]) == self.batch_size:
                yield _joined(waiting.pop(kind), role)
        for (role, _), found in waiting.items():
            yield _joined(found, role)

    def _add_gradients(self, sums: Sums, batch: Batch, ids: tuple[str, ...]) -> None:
        """With a label drawn from the network's own softened prediction, the mean of this is the Fisher's trace."""
        parameters = parameters_of(self.model, self.layers)
        for i, id_ in enumerate(ids):
            if not self.plan.takes_gradient(id_):
                continue
            logits = logits_of(self.model, batch[torch.tensor([i])].for_model(self.model))
            logs = (logits.float() / self.temperature).log_softmax(dim=1)
            generator = self.plan.generator(id_, "label")
            drawn = torch.multinomial(logs.detach().exp().cpu(), 1, generator=generator)[:, 0].to(logs.device)
            grads = gradients_of(self.temperature * F.nll_loss(logs, drawn, reduction="sum"), parameters)
            for x in self.layers:
                sums.fisher[x.name] += x.matrix(grads).double().square().sum().item()
            sums.samples["fisher"] += 1


def batch_size_for(
    model: nn.Module, layers: tuple[Layer, ...], plan: Plan, samples: Iterable[tuple[str, Batch]]
) -> int:
    """64, or 1 where a batch does not give the same as its samples one by one: found out on a few of them."""
    first = _same_shape(list(samples))
    ids, batch, _ = _joined(first, "fit")
    together, alone = (Sums.empty(layers).fit for _ in range(2))
    sharing = Sharing(model, layers, plan, 1.0, _BATCH)
    sharing.add_rows(together, batch, ids, "fit")
    for id_, sample in first:
        sharing.add_rows(alone, sample, (id_,), "fit")
    apart = [(together[x.name].dense() - alone[x.name].dense()).norm() for x in layers]
    size = [alone[x.name].dense().norm() for x in layers]
    return _BATCH if all(d <= _CLOSE * s for d, s in zip(apart, size, strict=True)) else 1


def _same_shape(samples: list[tuple[str, Batch]]) -> list[tuple[str, Batch]]:
    shape = _shapes(samples[0][1].inputs)
    return [(id_, sample) for id_, sample in samples if _shapes(sample.inputs) == shape]


def _joined(found: list[tuple[str, Batch]], role: Role) -> tuple[tuple[str, ...], Batch, Role]:
    return tuple(id_ for id_, _ in found), join([sample for _, sample in found]), role


def _shapes(inputs: object) -> object:
    """Something that two samples have in common if their inputs are of the same shapes."""
    if isinstance(inputs, dict):
        return tuple((str(name), _shapes(value)) for name, value in inputs.items())
    if isinstance(inputs, (tuple, list)):
        return tuple(map(_shapes, inputs))
    return tuple(inputs.shape) if isinstance(inputs, Tensor) else None
