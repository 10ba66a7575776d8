"""What single samples bring to the statistics: sums that add up, and that can be taken out again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch, join
from unsc.datasets import Source, read
from unsc.layers import Draw, Layer, observe, parameters_of
from unsc.logits import check_logits, logits_of
from unsc.moments import Moment
from unsc.progress import Progress, quiet
from unsc.release.plan import Plan, Role
from unsc.steps.gradients import gradients_of

_BATCH = 64
_CLOSE = 1e-4
"""How far, relative to its size, a moment of a batch may be from the sum of those of its samples, for rounding."""


class Member(NamedTuple):
    """A training sample, and where it is."""

    position: int
    id: str
    label: int


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

    def of(self, source: Source, members: Iterable[Member], *, progress: Progress = quiet) -> Sums:
        """The sums over those `members` of a data set that the plan takes; the others are not read."""
        sums = Sums.empty(self.layers)
        by_role = self.roles(members)
        with progress("statistics", sum(map(len, by_role.values()))) as advance:
            for own_ids, batch, role in self._batches(source, by_role):
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

    def roles(self, members: Iterable[Member]) -> dict[Role, list[Member]]:
        """Those that the plan takes, by what for."""
        found: dict[Role, list[Member]] = {"fit": [], "check": []}
        for member in members:
            role = self.plan.role(member.id, member.label)
            if role != "none":
                found[role].append(member)
        return found

    def _batches(
        self, source: Source, by_role: dict[Role, list[Member]]
    ) -> Iterator[tuple[tuple[str, ...], Batch, Role]]:
        """Batches of one role whose samples are of the same shape, so that none is filled up for another's sake."""
        for role, members in by_role.items():
            apart = self.batch_size == 1 or source.form.collate is not None
            for ids, batch in (_by_shape if apart else _in_order)(source, members, self.batch_size):
                yield ids, batch, role

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
    ids, batch = _joined(first)
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


def _in_order(source: Source, members: Sequence[Member], size: int) -> Iterator[tuple[tuple[str, ...], Batch]]:
    for start in range(0, len(members), size):
        some = members[start : start + size]
        yield tuple(member.id for member in some), read(source, [member.position for member in some])


def _by_shape(source: Source, members: Sequence[Member], size: int) -> Iterator[tuple[tuple[str, ...], Batch]]:
    """Samples of one shape together: a collator would fill shorter ones up."""
    waiting: dict[object, list[tuple[str, Batch]]] = {}
    for member in members:
        sample = read(source, [member.position])
        shape = _shapes(sample.inputs)
        waiting.setdefault(shape, []).append((member.id, sample))
        if len(waiting[shape]) == size:
            yield _joined(waiting.pop(shape))
    yield from map(_joined, waiting.values())


def _joined(found: list[tuple[str, Batch]]) -> tuple[tuple[str, ...], Batch]:
    return tuple(id_ for id_, _ in found), join([sample for _, sample in found])


def _shapes(inputs: object) -> object:
    """Something that two samples have in common if their inputs are of the same shapes."""
    if isinstance(inputs, dict):
        return tuple((str(name), _shapes(value)) for name, value in inputs.items())
    if isinstance(inputs, (tuple, list)):
        return tuple(map(_shapes, inputs))
    return tuple(inputs.shape) if isinstance(inputs, Tensor) else None
