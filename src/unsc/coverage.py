"""How much of a network was edited: the share of its parameters, and of its depth.

A network of which only the head was edited still has all that it knows in its features, where a linear probe finds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from unsc.batches import Batch
from unsc.layers import Layer, Weights, kind_of, own_parameters
from unsc.logits import logits_of

_FEW = 4
"""Samples that show which modules are used."""
_MOVED = 1e-6
"""Of a matrix's norm: less is rounding."""


@dataclass(frozen=True)
class Coverage:
    """What was edited, of what there is."""

    parameters: float
    """Share of all parameters, 0 to 1, that are in layers that moved."""
    modules_edited: int
    modules: int
    """How many modules with weights a forward pass uses. Normalisation, which has scales alone, is not counted."""
    head_only: bool
    """Whether the last of several such modules is the only one that was edited."""

    def __str__(self) -> str:
        return f"{self.modules_edited} of {self.modules} modules with weights, {self.parameters:.1%} of all parameters"


def coverage(model: nn.Module, layers: Iterable[Layer], batch: Batch) -> Coverage:
    """What share of `model` the `layers` are; a forward pass on `batch` tells which modules are used, and when."""
    layers = tuple(layers)
    used = in_order_of_use(model, batch)
    touched = {use.module for layer in layers for use in layer.uses}
    entries = sum(layer.groups * layer.outputs * layer.columns for layer in layers)
    return Coverage(
        parameters=entries / sum(p.numel() for p in model.parameters()),
        modules_edited=sum(path in touched for path in used),
        modules=len(used),
        head_only=len(used) > 1 and [path for path in used if path in touched] == used[-1:],
    )


@torch.no_grad()
def moved(before: nn.Module, after: nn.Module, layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """The layers whose matrix differs between two copies of a network by more than rounding."""
    layers = tuple(layers)
    old, new = Weights(before, layers), Weights(after, layers)
    sizes: dict[str, float] = {}
    changes: dict[str, float] = {}
    for layer in layers:
        matrix = old.matrix(layer)
        sizes[layer.name] = matrix.double().square().sum().item()
        changes[layer.name] = (new.matrix(layer) - matrix).double().square().sum().item()
    sizes, changes = old.total(sizes), old.total(changes)
    return tuple(x for x in layers if changes[x.name] > _MOVED**2 * sizes[x.name])


def in_order_of_use(model: nn.Module, batch: Batch) -> list[str]:
    """Paths of the modules with a weight of two or more dimensions, in the order in which they are called first.

    A module that shares the weight of another has the weight too. Parts that a kind of layer describes as its own are
    not modules of their own here.
    """
    inside = {
        module.get_submodule(name)
        for module in model.modules()
        if (kind := kind_of(module)) is not None
        for name in kind.inside
    }
    used: dict[str, None] = {}

    def note(path: str, *_: object) -> None:
        used.setdefault(path)

    with ExitStack() as hooks, torch.no_grad():
        for path, module in model.named_modules():
            if module not in inside and any(p.dim() > 1 for p in own_parameters(module).values()):
                hooks.callback(module.register_forward_pre_hook(partial(note, path)).remove)
        logits_of(model, batch[torch.arange(min(_FEW, len(batch)))].for_model(model))
    return list(used)
