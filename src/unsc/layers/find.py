"""Every supported layer as `rows @ W.T`.

A layer's *rows* are its inputs in the shape its weight sees: flattened inputs for a linear map, unfolded
patches for a convolution. A bias is one more input column that is always 1, so `[W | b]` is one matrix.
Rows have shape (groups, n, columns), the matrix (groups, outputs / groups, columns); `groups` is 1 for all
but grouped convolutions.

A `Layer` names parameters and modules and holds no reference to either, so that the same description
serves a model and its copies. `rows.py` streams the rows themselves out of a forward pass.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


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
    role: str
    """Which of the module's inputs the rows come from: `input`, or `q`, `k`, `v`, `out` of an attention."""
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
    """Whether the parameter is stored as (inputs, outputs), as Hugging Face's Conv1D does."""

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
        weight = self.weight.of(tensors)
        weight = weight.T if self.transposed else weight
        parts = [weight.reshape(self.groups, self.outputs, self.inputs)]
        parts += [view.of(tensors).reshape(self.groups, self.outputs, 1) for view in self.biases]
        return torch.cat(parts, dim=2)

    @torch.no_grad()
    def write(self, matrix: Tensor, tensors: Mapping[str, Tensor]) -> None:
        """The inverse of `matrix`: copy (groups, outputs, columns) into the parameters."""
        weight = self.weight.of(tensors)
        flat = matrix[..., : self.inputs]
        weight.copy_(flat[0].T if self.transposed else flat.reshape(weight.shape))
        for i, view in enumerate(self.biases):
            view.of(tensors).copy_(matrix[..., self.inputs + i].reshape(-1))


def parameters_of(model: nn.Module, layers: Iterable[Layer]) -> dict[str, nn.Parameter]:
    """The parameters of `model` that `layers` cover, by name, each once."""
    named = dict(model.named_parameters())
    return {name: named[name] for layer in layers for name in layer.parameters}


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
    inside_attention: set[str] = set()
    for path, module in model.named_modules():
        if path in inside_attention:
            continue
        described = list(_describe(path, module, names))
        for layer in described:
            known = found.setdefault(layer.weight, layer)
            if replace(known, name=layer.name, uses=layer.uses) != layer:
                frozen |= dict.fromkeys(layer.parameters, f"shared by unlike layers, {known.name} and {layer.name}")
            elif known is not layer:
                found[layer.weight] = replace(known, uses=known.uses + layer.uses)
        owners = [module]
        if isinstance(module, nn.MultiheadAttention):
            inside_attention.add(_join(path, "out_proj"))
            owners.append(module.out_proj)
        covered = {name for layer in described for name in layer.parameters}
        for owner in owners:
            for attribute, parameter in owner.named_parameters(recurse=False):
                if names[id(parameter)] not in covered:
                    frozen[names[id(parameter)]] = _why_frozen(owner, attribute, parameter)
    bias_owners = Counter(bias for layer in found.values() for bias in layer.biases)
    frozen |= {b.parameter: "a bias shared by several layers" for b, owners in bias_owners.items() if owners > 1}
    views = {view for layer in found.values() for view in (layer.weight, *layer.biases)}
    pieces = Counter(view.parameter for view in views)
    whole = {view.parameter for view in views if view.stop is None}
    frozen |= {name: "shared in part by unlike layers" for name in whole if pieces[name] > 1}
    layers = [_without_biases(x, frozen) for x in found.values() if x.weight.parameter not in frozen]
    covered = {name for layer in layers for name in layer.parameters}
    left = [name for name in names.values() if name not in covered]
    return Found(tuple(layers), {name: frozen.get(name, "its layer is frozen") for name in left})


def _describe(path: str, module: nn.Module, names: Mapping[int, str]) -> Iterator[Layer]:
    """The layers that one module brings, before those with a common weight are joined."""

    def view(attribute: str, start: int = 0, stop: int | None = None) -> View | None:
        owner, _, leaf = attribute.rpartition(".")
        parameter = (module.get_submodule(owner) if owner else module)._parameters.get(leaf)
        usable = parameter is not None and not isinstance(parameter, UninitializedParameter) and parameter.requires_grad
        return View(names[id(parameter)], start, stop) if usable else None

    def layer(
        name: str, weight: View | None, role: str, bias: View | None, shape: tuple[int, int, int]
    ) -> Layer | None:
        if weight is None:
            return None
        groups, outputs, inputs = shape
        return Layer(name, weight, (Use(path, role, bias),), groups, outputs // groups, inputs)

    made: list[Layer | None] = []
    if isinstance(module, nn.MultiheadAttention):
        e = module.embed_dim
        packed = module._parameters.get("in_proj_weight") is not None
        widths = {"q": e, "k": module.kdim or e, "v": module.vdim or e}
        for i, (role, width) in enumerate(widths.items()):
            span = (i * e, (i + 1) * e)
            weight = view("in_proj_weight", *span) if packed else view(f"{role}_proj_weight")
            made.append(layer(_join(path, role), weight, role, view("in_proj_bias", *span), (1, e, width)))
        out = view("out_proj.weight")
        made.append(layer(_join(path, "out_proj"), out, "out", view("out_proj.bias"), (1, e, e)))
    elif isinstance(module, nn.Linear):
        shape = (1, module.out_features, module.in_features)
        made.append(layer(path, view("weight"), "input", view("bias"), shape))
    elif isinstance(module, CONVOLUTIONS):
        inputs = module.in_channels // module.groups * math.prod(module.kernel_size)
        made.append(layer(path, view("weight"), "input", view("bias"), (module.groups, module.out_channels, inputs)))
    elif _is_hugging_face_conv1d(module):
        weight = view("weight")
        if weight is not None:
            inputs, outputs = (int(n) for n in module._parameters["weight"].shape)  # type: ignore[union-attr]
            plain = layer(path, weight, "input", view("bias"), (1, outputs, inputs))
            made.append(replace(plain, transposed=True))  # type: ignore[type-var]
    yield from (one for one in made if one is not None)


def _is_hugging_face_conv1d(module: nn.Module) -> bool:
    # A model can only hold one if its owner imported transformers, which we then need not import.
    library = sys.modules.get("transformers.pytorch_utils")
    return library is not None and isinstance(module, library.Conv1D)


def _why_frozen(module: nn.Module, attribute: str, parameter: Tensor) -> str:
    if isinstance(parameter, UninitializedParameter):
        return "never initialised"
    if not parameter.requires_grad:
        return "requires_grad is False"
    if isinstance(module, (nn.Linear, *CONVOLUTIONS, nn.MultiheadAttention)) and attribute.endswith("bias"):
        return "a bias moves only with its weight"
    return f"{type(module).__name__}.{attribute} has no null space"


def _without_biases(layer: Layer, frozen: Mapping[str, str]) -> Layer:
    """Drop biases that also serve an unsupported module: the weight alone can still be confined."""
    uses = tuple(replace(u, bias=None) if u.bias and u.bias.parameter in frozen else u for u in layer.uses)
    return replace(layer, uses=uses)


def _join(path: str, leaf: str) -> str:
    return f"{path}.{leaf}" if path else leaf
