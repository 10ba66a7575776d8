"""The matrices of a network's layers, as far as this rank holds them.

Metric and projector act on the columns of a matrix, and so on each of its rows by itself: rows of a weight that FSDP2
has spread over ranks are moved where they are. What is worked out on the rows of one rank, such as an inner product,
is summed over ranks.

That takes weights whose first dimension is outputs, cut along it, each part with the entries of the bias that belong to
its rows, and of grouped weights with whole groups. Other layers (transposed convolutions, bags whose moment is kept
whole, groups that are cut through) are gathered, one at a time, whenever their matrix is read or written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from unsc import peers
from unsc.layers.layer import Layer, View, parameters_of
from unsc.shards import Cut, cut_of, is_first_copy, is_shard, local, own_part, put, spans, whole


@dataclass(frozen=True)
class _Held:
    """How a layer is held."""

    layer: Layer
    """Its views and sizes in what this rank has of its parameters."""
    groups: slice
    """Which of its groups these are."""
    gathered: bool
    """Whether its parameters are sharded, and this is the whole layer all the same."""
    counts: bool
    """Whether this rank is the one that speaks for what it has here."""


class Weights:
    """All rows of each layer, or, in a sharded network, those of this rank: (groups, outputs, columns)."""

    def __init__(self, model: nn.Module, layers: Iterable[Layer]) -> None:
        layers = tuple(layers)
        self.parameters = parameters_of(model, layers)
        self.sharded = any(is_shard(p) for p in self.parameters.values())
        self._held = {x.name: _held(x, self.parameters) for x in layers}

    def matrix(self, layer: Layer, tensors: Mapping[str, Tensor] | None = None) -> Tensor:
        """`[W | b]`, from the parameters or from other `tensors` that are spread as they are, such as gradients."""
        held, tensors = self._held[layer.name], self.parameters if tensors is None else tensors
        take = whole if held.gathered else local
        return held.layer.matrix({name: take(tensors[name]) for name in layer.parameters})

    def views(self, layer: Layer, tensors: Mapping[str, Tensor]) -> list[Tensor]:
        """The parts of `matrix`, as they are stored."""
        held = self._held[layer.name]
        own = {name: (whole if held.gathered else local)(tensors[name]) for name in layer.parameters}
        return [view.of(own) for view in (held.layer.weight, *held.layer.biases)]

    def matrices(self, tensors: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """Of all layers, by name."""
        return {name: self.matrix(held.layer, tensors) for name, held in self._held.items()}

    @torch.no_grad()
    def way_to(self, other: Weights) -> dict[str, Tensor]:
        """How the matrix of each layer differs in another network that is held in the same way: its own less this."""
        return {name: other.matrix(held.layer) - self.matrix(held.layer) for name, held in self._held.items()}

    @torch.no_grad()
    def write(self, layer: Layer, matrix: Tensor) -> None:
        """The inverse of `matrix`: copy it into the parameters."""
        held = self._held[layer.name]
        if not held.gathered:
            held.layer.write(matrix, {name: local(self.parameters[name]) for name in layer.parameters})
            return
        full = {name: whole(self.parameters[name]) for name in layer.parameters}
        layer.write(matrix, full)
        for name, values in full.items():
            put(values, self.parameters[name])

    @torch.no_grad()
    def add(self, layer: Layer, matrix: Tensor, factor: float) -> None:
        """Add `factor` times a matrix of the same rows to the parameters, in place where they are not gathered."""
        held = self._held[layer.name]
        if held.gathered:
            self.write(layer, self.matrix(layer).add(matrix, alpha=factor))
        else:
            held.layer.add(matrix, {name: local(self.parameters[name]) for name in layer.parameters}, factor)

    def groups(self, layer: Layer) -> slice:
        """Which groups the matrix of a layer has."""
        return self._held[layer.name].groups

    def total(self, values: Mapping[str, float]) -> dict[str, float]:
        """By layer, the sum over ranks of what was worked out on the rows of each."""
        if not self.sharded:
            return dict(values)
        return dict(zip(values, peers.total_of(*self.counted(values).values()), strict=True))

    def counted(self, values: Mapping[str, float]) -> dict[str, float]:
        """The same before it is summed: 0 where another rank has the same rows, and speaks for them."""
        return {name: value if self._held[name].counts else 0.0 for name, value in values.items()}

    def whole_at(self, owner: int, layer: Layer, matrix: Tensor) -> Tensor | None:
        """All rows of a layer's matrix, on the rank `owner`; None on the others. All ranks must ask for it."""
        held = self._held[layer.name]
        if held.gathered or not self.sharded:
            return matrix if peers.rank() == owner else None
        parts = peers.gathered_at(owner, matrix.cpu() if held.counts else None)
        along = 1 if layer.groups == 1 else 0
        return None if parts is None else torch.cat([part for part in parts if part is not None], along).to(matrix)


def _held(layer: Layer, parameters: Mapping[str, nn.Parameter]) -> _Held:
    of_layer: list[Any] = [parameters[name] for name in layer.parameters]
    if not any(map(is_shard, of_layer)):
        return _Held(layer, slice(None), gathered=False, counts=True)
    cuts = [cut_of(p) if is_shard(p) else None for p in of_layer]
    weight: Any = parameters[layer.weight.parameter]
    rows = _rows(layer, layer.weight, weight, cuts[0])
    same = [_rows(layer, view, parameters[view.parameter], cuts[0]) for view in layer.biases]
    if rows is None or len(set(cuts)) > 1 or any(other != rows for other in same) or layer.transposed:
        return _Held(layer, slice(None), gathered=True, counts=peers.rank() == 0)
    cut = cuts[0] or Cut(0, 0)
    start, stop = rows[own_part(weight, cut)]
    views = {v: _own_view(v, parameters[v.parameter], cut) for v in (layer.weight, *layer.biases)}
    uses = tuple(use if use.bias is None else replace(use, bias=views[use.bias]) for use in layer.uses)
    sizes = {"groups": stop - start} if layer.groups > 1 else {"outputs": stop - start}
    return _Held(
        replace(layer, weight=views[layer.weight], uses=uses, **sizes),
        slice(start, stop) if layer.groups > 1 else slice(None),
        gathered=False,
        counts=is_first_copy(weight, cut),
    )


def _rows(layer: Layer, view: View, p: Any, cut: Cut | None) -> list[tuple[int, int]] | None:
    """The groups of a layer that each part of a parameter has, or the outputs where there is one group; None if parts
    are no such rows."""
    if cut is None or cut.dim != 0 or not is_shard(p):
        return None
    last = p.shape[0] if view.stop is None else view.stop
    units = layer.groups if layer.groups > 1 else layer.outputs
    each, uneven = divmod(last - view.start, units)
    edges = [[min(max(edge, view.start), last) - view.start for edge in part] for part in spans(p, cut)]
    if uneven or not each or any(edge % each for part in edges for edge in part):
        return None
    return [(start // each, stop // each) for start, stop in edges]


def _own_view(view: View, p: Any, cut: Cut) -> View:
    """Where the rows of a view are in what this rank has of a parameter."""
    start, stop = spans(p, cut)[own_part(p, cut)]
    last = p.shape[0] if view.stop is None else view.stop
    first = min(max(start, view.start), stop)
    return View(view.parameter, first - start, max(min(stop, last), first) - start)
