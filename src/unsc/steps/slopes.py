"""How fast each sample's own number changes as each layer moves along a direction, all samples and layers in one pass.

A layer returns `rows @ W.T`. So the derivative of a number along a direction D of its weights is the product of what
the layer is told, the gradient of what it returned, with what it would return if D were its weights. It comes sample by
sample, and neither gradients of single samples nor those of weights are formed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from unsc.layers import Call, Layer, View, hooked
from unsc.steps.factors import LowRank, Matrix

_PLAIN = nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d
"""Modules that return the product itself, with samples along the first dimension."""


@dataclass(frozen=True)
class _Seen:
    """One call of the module that uses a layer."""

    layer: Layer
    module: nn.Module
    given: Tensor
    output: Tensor


def slopes(
    model: nn.Module,
    layers: Sequence[Layer],
    directions: Mapping[str, Matrix],
    total: Callable[[], Tensor],
    samples: int,
) -> Tensor | None:
    """The derivatives of so many samples' numbers along the direction of each layer, float64 (samples, layers).

    `total` passes the samples through the network and sums a number of each, which depends on that sample alone. None
    where that cannot be had in one pass: a layer is used twice, or in another kind of module, or in one that does not
    see the samples along its first dimension.
    """
    places = {x.uses[0].module: x for x in layers if is_plain(model, x)}
    if len(places) < len(layers):
        return None
    seen: list[_Seen] = []

    def receive(call: Call[Any]) -> Tensor:
        seen.append(_Seen(places[call.path], call.module, call.first.detach(), call.output))
        return call.output.clone()  # what follows may work in place

    with hooked({path: model.get_submodule(path) for path in places}, receive):
        value = total()
    if not all(_by_sample(call.module, call.given, samples) for call in seen):
        return None
    told = torch.autograd.grad(value, [call.output for call in seen], allow_unused=True, materialize_grads=True)
    found = {x.name: torch.zeros(samples, dtype=torch.float64, device=value.device) for x in layers}
    with torch.no_grad():
        for call, own in zip(seen, told, strict=True):
            products = own * returned(call.layer, call.module, call.given, directions[call.layer.name])
            found[call.layer.name] += products.sum(dim=tuple(range(1, products.dim())), dtype=torch.float64)
    return torch.stack([found[x.name] for x in layers], dim=1).cpu()


def is_plain(model: nn.Module, layer: Layer) -> bool:
    """Whether it is all of the weight of one plain module, and perhaps its bias."""
    if len(layer.uses) != 1 or type(model.get_submodule(layer.uses[0].module)) not in _PLAIN:
        return False
    path = layer.uses[0].module
    names = [".".join(part for part in (path, leaf) if part) for leaf in ("weight", "bias")]
    return [layer.weight, *layer.biases] == [View(name) for name in names[: 1 + len(layer.biases)]]


def _by_sample(module: nn.Module, given: Tensor, samples: int) -> bool:
    """Whether samples are along the first dimension, and so surely not along the second."""
    if not isinstance(module, nn.Linear):
        return len(given) == samples  # a convolution takes nothing else, but for one sample alone
    return len(given) == samples and (given.dim() == 2 or given.shape[1] != samples)


def returned(layer: Layer, module: nn.Module, given: Tensor, direction: Matrix) -> Tensor:
    """What the plain module of a layer would return if a direction were its weight and bias."""
    if isinstance(direction, LowRank):
        left, right = direction.left[0], direction.right[0]
        inside = given @ right[:, : layer.inputs].mT + right[:, layer.inputs :].sum(dim=1)
        return inside @ left.mT
    # Laid out as the parameters are; a bias that is not edited does not move.
    made = {name: torch.zeros_like(p) for name, p in module.named_parameters(recurse=False)}
    own = {view.parameter: made[view.parameter.rpartition(".")[2]] for view in (layer.weight, *layer.biases)}
    layer.write(direction, own)
    return torch.func.functional_call(module, made, (given,))
