"""Check, before anything is edited, that modules return what their layers say: `rows @ W.T`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from unsc.layers.call import Call
from unsc.layers.kind import Kind
from unsc.layers.layer import Layer, Use
from unsc.layers.rows import chunks
from unsc.layers.stream import CHUNK_BYTES, observe_uses

_TOLERANCE = 1e-3
"""Of rounding, relative to the largest output."""


def check_layers(model: nn.Module, layers: Iterable[Layer], forward: Callable[[], object]) -> dict[str, str]:
    """Compare `rows @ W.T` with what each module returns during `forward`; names of layers that fail, and why.

    A subclass may do something else with its weight (standardise it, add to it), and a layer may not be
    used at all; neither must be edited on the strength of its type.
    """
    layers = tuple(layers)
    used: set[str] = set()
    broken: dict[str, str] = {}

    def receive(call: Call[Any], kind: Kind[Any], layer: Layer, use: Use) -> None:
        used.add(layer.name)
        if not kind.visible(use.role):
            return
        whole = kind.recomputed(call)
        if whole is not None:
            if not _same(whole, kind.returned(call, use.role)):
                broken[use.module] = f"{type(call.module).__name__} does not return what its rows and weights give"
            return
        matrix = layer.matrix({name: model.get_parameter(name) for name in layer.parameters})
        predicted = [rows @ matrix.mT for rows in chunks(layer, use, kind.rows(call, use.role), CHUNK_BYTES)]
        bias = kind.bias(call.module, use.role) if use.bias is None else None  # one that is not edited
        returned = kind.returned(call, use.role)
        if predicted and not _agree(torch.cat(predicted, dim=1), bias, returned, kind.channels(call.module)):
            broken[use.module] = f"{type(call.module).__name__} does not return rows @ W.T"

    with observe_uses(model, layers, receive):
        forward()
    failed = {x.name: "not used by the model's forward pass" for x in layers if x.name not in used}
    return failed | {x.name: broken[use.module] for x in layers for use in x.uses if use.module in broken}


def _agree(ours: Tensor, bias: Tensor | None, returned: object, channels: int) -> bool:
    """Whether predicted outputs (groups, n, outputs) are those that the module returned, up to rounding."""
    groups, _, outputs = ours.shape
    if not isinstance(returned, Tensor) or returned.numel() != ours.numel() or returned.dim() < -channels:
        return False
    if bias is not None:
        ours = ours + bias.reshape(groups, 1, outputs)
    return _same(ours, returned.movedim(channels, -1).reshape(-1, groups, outputs).transpose(0, 1))


def _same(ours: Tensor, theirs: object) -> bool:
    """Whether two results are equal up to rounding."""
    if not isinstance(theirs, Tensor) or ours.shape != theirs.shape:
        return False
    if ours.numel() == 0:
        return True
    return bool((ours - theirs).abs().max() <= _TOLERANCE * theirs.abs().max().clamp(min=1e-6))
