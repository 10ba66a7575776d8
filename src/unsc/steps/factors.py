"""Gradients by each layer's matrix, those of wide layers by their factors.

The gradient of a linear layer is a product of what it is given and what it is told, with one row for each sample. In
a layer much wider than a batch that product is neither formed nor inverted: its two factors are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from unsc import peers
from unsc.batches import Batch
from unsc.layers import Call, Layer, View, Weights, hooked, parameters_of
from unsc.steps.gradients import BatchLoss, total_gradients

_WORTH = 3
"""Times that a layer must be wider than a batch for the factors of its gradient to be the smaller thing."""
_FEW = 0.75
"""Share of a layer's units that are told something, up to which it pays to pick them out."""


@dataclass(frozen=True)
class LowRank:
    """A matrix (1, outputs, columns) as the product of two thin ones."""

    left: Tensor
    """(1, outputs, rank)"""
    right: Tensor
    """(1, rank, columns)"""

    def dense(self) -> Tensor:
        return self.left @ self.right


Matrix: TypeAlias = Tensor | LowRank
"""(groups, outputs, columns): a gradient by a layer's matrix, or a direction to move it in."""


def dense(matrix: Matrix) -> Tensor:
    return matrix.dense() if isinstance(matrix, LowRank) else matrix


def dot(one: Matrix, other: Matrix) -> float:
    """The sum of the products of all entries."""
    if isinstance(one, LowRank) and isinstance(other, LowRank):
        return ((one.left.mT @ other.left) * (one.right @ other.right.mT)).sum().item()
    if isinstance(other, LowRank):
        one, other = other, one
    if isinstance(one, LowRank):
        left, rows = _rows_told(one)
        return ((left.mT @ dense(other)[0, rows]) * one.right).sum().item()
    return (one * dense(other)).sum().item()


def mixed(one: Matrix, other: Matrix, share: float) -> Tensor:
    """`(1 - share)` of one matrix and `share` of another. If the first is a tensor, it is overwritten."""
    mean = dense(one)
    if isinstance(other, LowRank):
        left, rows = _rows_told(other)
        if isinstance(rows, slice):
            mean[0].addmm_(left, other.right[0], beta=1 - share, alpha=share)
        else:
            mean.mul_(1 - share)[0].index_add_(0, rows, left @ other.right[0], alpha=share)
        return mean
    return mean.lerp_(other, share)


def _rows_told(matrix: LowRank) -> tuple[Tensor, Tensor | slice]:
    """The rows (k, rank) of a left factor, and which ones: units that are silent for all samples are told nothing, and
    where they are many they are left out."""
    left = matrix.left[0]
    told = left.any(dim=1)
    rows = told.nonzero()[:, 0]
    return (left[rows], rows) if len(rows) <= _FEW * len(told) else (left, slice(None))


def joined(parts: Sequence[Matrix]) -> Matrix:
    """The sum of some matrices."""
    if len(parts) == 1:
        return parts[0]
    thin = [x for x in parts if isinstance(x, LowRank)]
    if len(thin) < len(parts):
        return torch.stack([dense(x) for x in parts]).sum(dim=0)
    return _thinner(LowRank(torch.cat([x.left for x in thin], dim=2), torch.cat([x.right for x in thin], dim=1)))


def _thinner(matrix: LowRank) -> Matrix:
    """The factors as they are, or their product where that is the smaller thing."""
    rank, sides = matrix.left.shape[2], (matrix.left.shape[1], matrix.right.shape[2])
    return matrix if _WORTH * rank <= min(sides) else matrix.dense()


@torch.no_grad()
def add(weights: Weights, layer: Layer, direction: Matrix, factor: float) -> None:
    """Move a layer's parameters by `factor` times a direction, in place."""
    if not isinstance(direction, LowRank):
        weights.add(layer, direction, factor)
        return
    left, right = direction.left[0], direction.right[0]
    layer.weight.of(weights.parameters).addmm_(left, right[:, : layer.inputs], alpha=factor)
    for i, view in enumerate(layer.biases):
        view.of(weights.parameters).addmv_(left, right[:, layer.inputs + i], alpha=factor)


def own_gradients(
    model: nn.Module, layers: Sequence[Layer], loss: Callable[[], Tensor], samples: int
) -> tuple[float, dict[str, Matrix]]:
    """A loss of so many of this rank's samples, and its gradient by each layer's matrix."""
    with _calls(model, [x for x in layers if _is_wide(model, x, samples)]) as seen:
        value = loss()
    others = parameters_of(model, [x for x in layers if x.name not in seen])
    outputs = [call.output for calls in seen.values() for call in calls]
    found = torch.autograd.grad(value, [*outputs, *others.values()], allow_unused=True, materialize_grads=True)
    told, grads = iter(found[: len(outputs)]), dict(zip(others, found[len(outputs) :], strict=True))
    by_name = {x.name: x for x in layers}
    # In the order of calls, as the gradients came: modules need not be called in the order in which they are defined.
    products = {name: _product(by_name[name], calls, told) for name, calls in seen.items()}
    matrices = {x.name: products[x.name] if x.name in products else x.matrix(grads) for x in layers}
    return value.item(), matrices


def shared_gradients(
    model: nn.Module, layers: Sequence[Layer], loss: BatchLoss, batch: Batch, targets: Tensor
) -> tuple[float, dict[str, Matrix]]:
    """The sum over ranks of a loss on the batch of each, which may be empty, and of its gradients by layer.

    Of a sharded network these are the rows that this rank holds.
    """
    if peers.count() == 1 and len(batch):
        return own_gradients(model, layers, partial(loss, batch, targets), len(batch))
    weights = Weights(model, layers)
    value, grads = total_gradients(model, weights.parameters, loss, batch, targets)
    return value, dict(weights.matrices(grads))


@dataclass(frozen=True)
class _Seen:
    """One call of a linear layer."""

    given: Tensor
    output: Tensor


def _is_wide(model: nn.Module, layer: Layer, samples: int) -> bool:
    """Whether it is a linear layer with weights of its own, used in one place, and much wider than so many rows."""
    plain = len(layer.uses) == 1 and layer.weight == View(layer.weight.parameter) and not layer.transposed
    whole = plain and all(view == View(view.parameter) for view in layer.biases)
    linear = whole and type(model.get_submodule(layer.uses[0].module)) is nn.Linear
    return linear and min(layer.outputs, layer.columns) >= _WORTH * samples


@contextmanager
def _calls(model: nn.Module, layers: Iterable[Layer]) -> Generator[dict[str, list[_Seen]]]:
    """While active, what linear `layers` are given and what they return, by name; those that are used only."""
    names = {layer.uses[0].module: layer.name for layer in layers}
    seen: dict[str, list[_Seen]] = {}

    def receive(call: Call[Any]) -> Tensor:
        seen.setdefault(names[call.path], []).append(_Seen(call.first.detach(), call.output))
        return call.output.clone()  # what follows may work in place

    with hooked({path: model.get_submodule(path) for path in names}, receive):
        yield seen


def _product(layer: Layer, calls: Sequence[_Seen], told: Iterator[Tensor]) -> Matrix:
    """The gradient of a linear layer, from what its calls were given and the gradients of what they returned."""
    rows = torch.cat([call.given.reshape(-1, layer.inputs) for call in calls])
    left = torch.cat([next(told).reshape(-1, layer.outputs) for _ in calls])
    ones = rows.new_ones(len(rows), len(layer.biases))
    return _thinner(LowRank(left.mT[None], torch.cat([rows, ones], dim=1)[None]))
