"""The paper's step (Eq. 12): any optimizer, confined to a null space by construction.

Projecting gradients keeps plain SGD in the null space, but not momentum, Adam or weight decay. So the optimizer
steps as it likes, and what it changed is projected: `W <- W + P (W_new - W)`. For plain SGD, the default, that is
`W - lr G P`: a wide layer's gradient is then never formed, and the projector acts on the thin one of its two factors.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc import peers
from unsc.batches import Batch
from unsc.checks import is_number, require
from unsc.collect import collect
from unsc.layers import Layer, Weights
from unsc.logits import logits_of
from unsc.progress import Progress
from unsc.steps.factors import add, shared_gradients
from unsc.steps.gradients import BatchLoss, total_gradients
from unsc.steps.rule import Step, StepRule
from unsc.steps.subspace import ClassBases, Energy, Merge, NullSpace, NullSpaces, class_basis
from unsc.targets import Targets
from unsc.task import Task

MakeOptimizer: TypeAlias = Callable[[Iterable[Tensor]], torch.optim.Optimizer]


@dataclass(frozen=True)
class PaperRule(StepRule[NullSpace | NullSpaces]):
    """SGD in the null space of what stays."""

    name: ClassVar[str] = "paper"
    any_layout: ClassVar[bool] = True
    in_shards: ClassVar[bool] = True
    guides: ClassVar[tuple[type, ...]] = (NullSpace, NullSpaces)
    preparing: ClassVar[tuple[str, ...]] = ("energy", "merge_energy")
    targets: ClassVar[Targets] = "hard"
    record_targets: ClassVar[Targets] = "hard"
    max_kl: ClassVar[float] = 1.0
    settles: ClassVar[bool] = False  # the paper has no such thing

    energy: Energy = 0.97
    """Share of a class's energy that its basis holds."""
    merge_energy: Energy = 0.99
    """Share of the merged bases' energy that the retained basis holds."""
    lr: float = 0.04
    """Learning rate of plain SGD."""
    optimizer: MakeOptimizer | None = None
    """Makes another optimizer from the parameters; `lr` is then not used."""

    def __post_init__(self) -> None:
        require("lr", self.lr, "a number above 0", is_number(self.lr) and self.lr > 0)

    def passes(self, steps_per_pass: int) -> int:
        return 25

    def prepare(self, task: Task, progress: Progress) -> NullSpace | NullSpaces:
        """The null space of the classes that stay, or, for records, that of all other classes for each label."""
        fit = task.samples.retain_fit
        with progress("moments", fit.number_of_batches()) as advance:

            def basis(label: int | None) -> dict[str, Tensor]:
                """Of a class, or of none, for the sake of ranks that have one more."""
                batches, chunk_bytes = () if label is None else fit.of_class(label), task.chunk_bytes
                moments = collect(task.original, task.layers, batches, chunk_bytes=chunk_bytes, advance=advance)
                return {} if label is None else class_basis(moments, self.energy)

            if task.request.kind == "classes":
                merge = Merge()
                for label in peers.in_turns(fit.positions):
                    found = basis(label)
                    if label is not None:
                        merge.add(label, found)
                return merge.total().null_space(self.merge_energy, {"energy": self.to_dict()["energy"]})
            found = {label: basis(label) for label in peers.in_turns(fit.positions)}
            everyones = {k: of_class for part in peers.gathered(found) for k, of_class in part.items() if k is not None}
            bases = ClassBases(dict(sorted(everyones.items())), self.energy, task.request.num_classes)
        own = task.samples.forget_fit.labels.unique().tolist()
        others = {k: set(fit.positions) - {k} for k in own}
        return NullSpaces({k: bases.null_space(others[k], merge_energy=self.merge_energy) for k in own})

    def start(self, model: nn.Module, task: Task, guide: NullSpace | NullSpaces) -> Confined:
        if self.optimizer is None:
            return PlainStep(model, task.layers, guide, self.lr)
        return ConfinedStep(model, task.layers, guide, self.optimizer)

    def to_dict(self) -> dict[str, Any]:
        plain = {n: dict(e) if isinstance(e, Mapping) else e for n in self.preparing for e in [getattr(self, n)]}
        optimizer = None if self.optimizer is None else repr(self.optimizer)
        return {"step": self.name, **plain, "lr": self.lr, "optimizer": optimizer}


class Confined(Step):
    """Learn target labels with every change confined to a null space."""

    takes_parts = True

    def __init__(self, model: nn.Module, layers: Sequence[Layer], spaces: NullSpace | Mapping[int, NullSpace]) -> None:
        """One null space for all samples, or one for the samples of each label."""
        self.model, self.layers = model, layers
        self.weights = Weights(model, layers)
        parameters = self.weights.parameters.values()
        example = next(iter(parameters))
        by_label = {None: spaces} if isinstance(spaces, NullSpace) else dict(spaces)
        self.spaces = {
            label: space.of_groups({x.name: self.weights.groups(x) for x in layers}).to(example.device, example.dtype)
            for label, space in by_label.items()
        }
        for p in parameters:
            p.requires_grad_(True)

    def __call__(self, batch: Batch, targets: Tensor) -> None:
        """Step on samples and their target distributions (n, classes), once for each null space among them."""
        every = torch.ones_like(batch.labels, dtype=torch.bool)
        chosen = [every if label is None else batch.labels == label for label in self.spaces]
        size, *counts = peers.total_of(len(batch), *(int(own.sum()) for own in chosen))

        def loss(own: Batch, wanted: Tensor) -> Tensor:
            return F.cross_entropy(logits_of(self.model, own), wanted, reduction="sum") / size

        for own, count, space in zip(chosen, counts, self.spaces.values(), strict=True):
            if count:
                self._step(batch[own], targets[own], space, loss)

    @abstractmethod
    def _step(self, batch: Batch, targets: Tensor, space: NullSpace, loss: BatchLoss) -> None:
        """Lower the loss of samples of one null space."""


class PlainStep(Confined):
    """By gradient descent at the rate `lr`."""

    def __init__(
        self, model: nn.Module, layers: Sequence[Layer], spaces: NullSpace | Mapping[int, NullSpace], lr: float
    ) -> None:
        super().__init__(model, layers, spaces)
        self.lr = lr

    def _step(self, batch: Batch, targets: Tensor, space: NullSpace, loss: BatchLoss) -> None:
        _, gradients = shared_gradients(self.model, self.layers, loss, batch, targets)
        for layer in self.layers:
            add(self.weights, layer, space.project(layer.name, gradients[layer.name]), -self.lr)


class ConfinedStep(Confined):
    """By any optimizer."""

    def __init__(
        self,
        model: nn.Module,
        layers: Sequence[Layer],
        spaces: NullSpace | Mapping[int, NullSpace],
        optimizer: MakeOptimizer,
    ) -> None:
        super().__init__(model, layers, spaces)
        self.optimizer = optimizer(self.weights.parameters.values())

    def _step(self, batch: Batch, targets: Tensor, space: NullSpace, loss: BatchLoss) -> None:
        _, grads = total_gradients(self.model, self.weights.parameters, loss, batch, targets)
        for name, p in self.weights.parameters.items():
            p.grad = grads[name]
        confined_step(self.optimizer, self.layers, self.weights, space)


@torch.no_grad()
def confined_step(
    optimizer: torch.optim.Optimizer, layers: Sequence[Layer], weights: Weights, space: NullSpace
) -> None:
    """`optimizer.step()`, of which only the part in the null space stays."""
    before = {name: p.detach().clone() for name, p in weights.parameters.items()}
    optimizer.step()
    for name, p in weights.parameters.items():
        p.sub_(before[name])
    wanted = {x.name: weights.matrix(x) for x in layers}
    for name, p in weights.parameters.items():
        p.copy_(before[name])  # parts of a parameter that belong to no layer do not move
    for layer in layers:
        weights.add(layer, space.project(layer.name, wanted[layer.name]), 1.0)
