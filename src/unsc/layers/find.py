"""Find every layer of a model, and say of every other parameter why it stays as it is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from unsc.layers.kind import Kind, Place
from unsc.layers.layer import Layer, View
from unsc.layers.registry import kind_of


@dataclass(frozen=True)
class Found:
    """What a model offers to edit, and every parameter that stays as it is, with the reason."""

    layers: tuple[Layer, ...]
    frozen: dict[str, str]


def find_layers(model: nn.Module) -> Found:
    """Describe every weight of `model` that can be confined; all other parameters are frozen.

    Frozen are parameters of other kinds of modules, those the user froze (`requires_grad=False`), and those
    that more than one rule would move: shared with an unsupported module, or between unlike layers.
    """
    names = {id(p): name for name, p in model.named_parameters()}
    found: dict[View, Layer] = {}
    frozen: dict[str, str] = {}
    inside: set[nn.Module] = set()
    for path, module in model.named_modules():
        if module in inside:
            continue
        kind = kind_of(module)
        parts = [module.get_submodule(name) for name in (kind.inside if kind is not None else ())]
        inside.update(parts)
        obstacle = None if kind is None else kind.obstacle(module)
        described = _described(kind, Place(path, module, names)) if kind is not None and obstacle is None else []
        for layer in described:
            known = found.setdefault(layer.weight, layer)
            if replace(known, name=layer.name, uses=layer.uses) != layer:
                frozen |= dict.fromkeys(layer.parameters, f"shared by unlike layers, {known.name} and {layer.name}")
            elif known is not layer:
                found[layer.weight] = replace(known, uses=known.uses + layer.uses)
        covered = {name for layer in described for name in layer.parameters}
        for owner in (module, *parts):
            for attribute, parameter in owner.named_parameters(recurse=False):
                if names[id(parameter)] not in covered:
                    frozen[names[id(parameter)]] = obstacle or _why_frozen(owner, attribute, parameter)
    frozen |= _contested(found.values())
    layers = [_without_biases(x, frozen) for x in found.values() if x.weight.parameter not in frozen]
    covered = {name for layer in layers for name in layer.parameters}
    left = [name for name in names.values() if name not in covered]
    return Found(tuple(layers), {name: frozen.get(name, "its layer is frozen") for name in left})


def _described(kind: Kind[Any], place: Place[Any]) -> list[Layer]:
    return [layer for layer in kind.layers(place) if layer is not None]


def _contested(layers: Iterable[Layer]) -> dict[str, str]:
    """Parameters that several layers would move, each by a rule of its own, and why."""
    layers = tuple(layers)
    bias_owners = Counter(bias for layer in layers for bias in layer.biases)
    shared = {b.parameter: "a bias shared by several layers" for b, owners in bias_owners.items() if owners > 1}
    views = {view for layer in layers for view in (layer.weight, *layer.biases)}
    ends: dict[str, float] = {}
    for view in sorted(views, key=lambda view: view.start):
        if view.start < ends.get(view.parameter, 0):
            shared.setdefault(view.parameter, "shared in part by unlike layers")
        ends[view.parameter] = max(ends.get(view.parameter, 0), math.inf if view.stop is None else view.stop)
    return shared


def _why_frozen(module: nn.Module, attribute: str, parameter: Tensor) -> str:
    if isinstance(parameter, UninitializedParameter):
        return "never initialised"
    if not parameter.requires_grad:
        return "requires_grad is False"
    if attribute.endswith("bias") and kind_of(module) is not None:
        return "a bias moves only with its weight"
    return f"{type(module).__name__}.{attribute} has no null space"


def _without_biases(layer: Layer, frozen: Mapping[str, str]) -> Layer:
    """Drop biases that also serve an unsupported module: the weight alone can still be confined."""
    uses = tuple(replace(u, bias=None) if u.bias and u.bias.parameter in frozen else u for u in layer.uses)
    return replace(layer, uses=uses)
