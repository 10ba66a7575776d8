"""The paper's step (Eq. 12): any optimizer, confined to a null space by construction.

Projecting gradients keeps plain SGD in the null space, but not momentum, Adam or weight decay. So the optimizer
steps as it likes, and what it changed is projected: `W <- W + P (W_new - W)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.layers import Layer, parameters_of
from unsc.logits import logits_of
from unsc.steps.subspace import NullSpace

MakeOptimizer = Callable[[Iterable[Tensor]], torch.optim.Optimizer]


class ConfinedStep:
    """Learn target labels with every change confined to a null space."""

    def __init__(
        self,
        model: nn.Module,
        layers: Sequence[Layer],
        spaces: NullSpace | Mapping[int, NullSpace],
        optimizer: MakeOptimizer,
    ) -> None:
        """One null space for all samples, or one for the samples of each label."""
        self.model, self.layers = model, layers
        self.parameters = parameters_of(model, layers)
        example = next(iter(self.parameters.values()))
        self.spaces = {
            label: space.to(example.device, example.dtype)
            for label, space in (spaces.items() if isinstance(spaces, Mapping) else [(None, spaces)])
        }
        for p in self.parameters.values():
            p.requires_grad_(True)
        self.optimizer = optimizer(self.parameters.values())

    def __call__(self, batch: Batch, targets: Tensor) -> None:
        """Step on samples and their target distributions (n, classes), once for each null space among them."""
        for label, space in self.spaces.items():
            chosen = torch.ones_like(batch.labels, dtype=torch.bool) if label is None else batch.labels == label
            if chosen.any():
                self._step(batch[chosen], targets[chosen], space, share=1 / len(batch))

    def _step(self, batch: Batch, targets: Tensor, space: NullSpace, *, share: float) -> None:
        loss = share * F.cross_entropy(logits_of(self.model, batch), targets, reduction="sum")
        self.optimizer.zero_grad()
        loss.backward()
        confined_step(self.optimizer, self.layers, self.parameters, space)


@torch.no_grad()
def confined_step(
    optimizer: torch.optim.Optimizer, layers: Sequence[Layer], parameters: Mapping[str, Tensor], space: NullSpace
) -> None:
    """`optimizer.step()`, of which only the part in the null space stays."""
    before = {name: p.detach().clone() for name, p in parameters.items()}
    optimizer.step()
    wanted = {x.name: x.matrix(parameters) - x.matrix(before) for x in layers}
    for name, p in parameters.items():
        p.copy_(before[name])  # parts of a parameter that belong to no layer do not move
    for layer in layers:
        layer.write(layer.matrix(before) + space.project(layer.name, wanted[layer.name]), parameters)
