"""What the package must know of a kind of layer.

A kind is one class in one file of this folder, with the decorator `register`; nothing else has to change. One of your
own may be registered from anywhere in the same way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeAlias

from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from unsc.layers.call import Call, M
from unsc.layers.layer import Layer, Use, View
from unsc.layers.rows import Rows

Factors: TypeAlias = Iterator[tuple[str, Tensor, Tensor]]
"""A parameter's attribute, and two factors whose product, for each sample, is its gradient: (n, groups, outputs, t) and
(n, groups, t, inputs)."""


@dataclass(frozen=True)
class Place(Generic[M]):
    """A module and where it is in its model."""

    path: str
    module: M
    names: Mapping[int, str]
    """The model's parameters: their names by `id`."""

    def view(self, attribute: str, start: int = 0, stop: int | None = None) -> View | None:
        """Rows of the parameter of this attribute (`weight`, `out_proj.weight`); None if it cannot be edited: there is
        none, it was never initialised, or the user froze it."""
        owner, _, leaf = attribute.rpartition(".")
        parameter = own_parameters(self.module.get_submodule(owner)).get(leaf)
        if parameter is None or isinstance(parameter, UninitializedParameter) or not parameter.requires_grad:
            return None
        return View(self.names[id(parameter)], start, stop)

    def layer(
        self,
        weight: View | None,
        bias: View | None,
        *,
        outputs: int,
        inputs: int,
        groups: int = 1,
        transposed: bool = False,
        role: str = "input",
        leaf: str = "",
    ) -> Layer | None:
        """The layer of a `weight` with `outputs` units in all and `inputs` columns; None without a weight.

        `leaf` tells the layers of one module apart: it is the end of the layer's name.
        """
        if weight is None:
            return None
        name = ".".join(part for part in (self.path, leaf) if part)
        return Layer(name, weight, (Use(self.path, role, bias),), groups, outputs // groups, inputs, transposed)


def own_parameters(module: nn.Module) -> dict[str, nn.Parameter]:
    """By attribute, those that are shared under each of theirs."""
    return dict(module.named_parameters(recurse=False, remove_duplicate=False))


def bias_of(module: nn.Module) -> Tensor | None:
    """What `module` has as its bias: a parameter, or a tensor that is computed from others."""
    bias = getattr(module, "bias", None)
    return bias if isinstance(bias, Tensor) else None


class Kind(ABC, Generic[M]):
    """How modules of one kind multiply by their weights."""

    name: ClassVar[str]
    """The modules in words, for messages."""
    inside: ClassVar[tuple[str, ...]] = ()
    """Submodules, by attribute, whose parameters this kind describes itself."""

    @abstractmethod
    def modules(self) -> tuple[type[M], ...]:
        """The classes that are of this kind, with their subclasses. Asked anew each time: those of a library that is
        not imported need not be there."""

    def obstacle(self, module: M) -> str | None:
        """Why this very module cannot be edited, in words for its owner; None if it can."""
        return None

    @abstractmethod
    def layers(self, place: Place[M]) -> Iterable[Layer | None]:
        """The layers that one module brings, None for one that cannot be edited (`Place.layer` says which)."""

    @abstractmethod
    def rows(self, call: Call[M], role: str) -> Rows:
        """What the layer of this role was multiplied with. The module may be run again to find out."""

    @abstractmethod
    def channels(self, module: M) -> int:
        """Which dimension of inputs and outputs are channels, counted from the end (below 0)."""

    def visible(self, role: str) -> bool:
        """Whether the outputs of the layer of this role can be seen from outside, so that they can be checked."""
        return True

    def recomputed(self, call: Call[M]) -> Tensor | None:
        """What the module must return if its rows and weights are as this kind says, where that is more than one
        product; None where the products themselves are returned."""
        return None

    def returned(self, call: Call[M], role: str) -> object:
        """The outputs of the layer of this role, or what was recomputed, as the module returned them."""
        return call.output

    def bias(self, module: M, role: str) -> Tensor | None:
        """What the module adds to the product of this role, (groups * outputs,), whether it is edited or not."""
        return bias_of(module)

    def features(self, call: Call[M]) -> Tensor | None:
        """The one input that stands for what the module is given; None if there is no such one."""
        return None


class Factored(ABC, Generic[M]):
    """A kind whose gradients for single samples are known from one pass over their batch."""

    @abstractmethod
    def factors(self, module: M, x: Tensor, gradient: Tensor) -> Factors:
        """The factors of each parameter's gradients, from the module's input (n, ...) and its output's gradient."""

    def overlap(self, module: M) -> int:
        """In how many rows an entry of the input is, at most."""
        return 1


def weight_and_bias(left: Tensor, right: Tensor) -> Factors:
    """Factors of `weight`, which is stored as (groups, outputs, inputs), and of the `bias` that goes with it."""
    yield "weight", left, right
    yield "bias", left, left.new_ones(*right.shape[:-1], 1)
