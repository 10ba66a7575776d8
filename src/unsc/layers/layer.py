"""Layers as pure descriptions: which parameters are one matrix `[W | b]`, and which modules multiply by it.

A layer's *rows* are its inputs in the shape its weight sees: flattened inputs for a linear map, unfolded patches for a
convolution. A bias is one more input column that is always 1, so that `[W | b]` is one matrix. Rows have shape
(groups, n, columns), the matrix (groups, outputs, columns); `groups` is 1 for all but grouped convolutions and
embeddings, where each token is a group.

A `Layer` names parameters and modules and holds no reference to either, so that one description serves a model and its
copies. How rows are taken from a module's inputs is said by the module's `Kind`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class View:
    """Rows `start:stop` of a parameter's first dimension; all of them by default."""

    parameter: str
    start: int = 0
    stop: int | None = None

    def of(self, tensors: Mapping[str, Tensor]) -> Tensor:
        return tensors[self.parameter][self.start : self.stop]


@dataclass(frozen=True)
class Use:
    """One module that multiplies by a layer's weight."""

    module: str
    """The module's path in its model."""
    role: str
    """Which of the module's products this is, in the words of its kind: `input` where there is only one."""
    bias: View | None


@dataclass(frozen=True)
class Layer:
    """A weight matrix with its biases, and the modules that use it."""

    name: str
    weight: View
    uses: tuple[Use, ...]
    groups: int
    outputs: int
    """Output units of one group."""
    inputs: int
    """Columns of the weight alone, without biases."""
    transposed: bool = False
    """Whether each group of the parameter is stored as (inputs, outputs, ...) instead of (outputs, inputs, ...)."""

    @property
    def biases(self) -> tuple[View, ...]:
        """Each different bias once; modules that share a weight may each bring their own."""
        return tuple(dict.fromkeys(use.bias for use in self.uses if use.bias is not None))

    @property
    def columns(self) -> int:
        return self.inputs + len(self.biases)

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(view.parameter for view in (self.weight, *self.biases)))

    def matrix(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """`[W | b]` as (groups, outputs, columns), from parameters or from their gradients, by name."""
        parts = [self._weight(tensors).reshape(self.groups, self.outputs, self.inputs)]
        parts += [view.of(tensors).reshape(self.groups, self.outputs, 1) for view in self.biases]
        return torch.cat(parts, dim=2)

    @torch.no_grad()
    def write(self, matrix: Tensor, tensors: Mapping[str, Tensor]) -> None:
        """The inverse of `matrix`: copy (groups, outputs, columns) into the parameters."""
        weight = self._weight(tensors)
        weight.copy_(matrix[..., : self.inputs].reshape(weight.shape))
        for i, view in enumerate(self.biases):
            view.of(tensors).copy_(matrix[..., self.inputs + i].reshape(-1))

    @torch.no_grad()
    def add(self, matrix: Tensor, tensors: Mapping[str, Tensor], factor: float) -> None:
        """Add `factor` times a matrix (groups, outputs, columns) to the parameters, in place."""
        weight = self._weight(tensors)
        weight.add_(matrix[..., : self.inputs].reshape(weight.shape), alpha=factor)
        for i, view in enumerate(self.biases):
            view.of(tensors).add_(matrix[..., self.inputs + i].reshape(-1), alpha=factor)

    def _weight(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """(groups, outputs, ...), a view of the stored weight."""
        stored = self.weight.of(tensors)
        grouped = stored.unflatten(0, (self.groups, len(stored) // max(self.groups, 1)))
        return grouped.transpose(1, 2) if self.transposed else grouped


def parameters_of(model: nn.Module, layers: Iterable[Layer]) -> dict[str, nn.Parameter]:
    """The parameters of `model` that `layers` cover, by name, each once."""
    named = dict(model.named_parameters())
    return {name: named[name] for layer in layers for name in layer.parameters}
