"""Outputs that were taken out of a network's head, with the map from the labels before to those after."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from unsc.errors import InvalidData, UnsupportedModel
from unsc.wrappers import unwrapped

_COUNTS = ("num_labels", "num_classes")
"""What modules of known libraries call the number of their classes."""
_OUT_OF_REACH = -1e4
"""A score that no sample comes near to; finite, also in half precision."""


@dataclass(frozen=True)
class DroppedOutputs:
    """Which outputs of a head are left, in the order of their new labels."""

    head: str
    """Path of the Linear layer in the network, without wrappers."""
    kept: tuple[int, ...]
    """The label before, for each label after."""
    num_classes: int
    """How many outputs there were before."""

    @property
    def label_map(self) -> dict[int, int]:
        """The label after for each label before; what was dropped is not in it."""
        return {old: new for new, old in enumerate(self.kept)}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, to be saved as JSON."""
        return {"head": self.head, "kept": list(self.kept), "num_classes": self.num_classes}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> DroppedOutputs:
        """What `to_dict` gave."""
        return cls(str(values["head"]), tuple(map(int, values["kept"])), int(values["num_classes"]))

    def drop(self, model: nn.Module) -> nn.Module:
        """A copy of `model`, in its own wrappers, without the outputs; one that lacks them already stays as it is."""
        inner, rewrap = unwrapped(model)
        result = copy.deepcopy(inner)
        layer = self._layer(result)
        if layer.out_features == self.num_classes:
            _take(layer, self.kept)
            _recount(result, self.label_map, before=self.num_classes, after=len(self.kept))
        return rewrap(result)

    def restored(self, model: nn.Module) -> nn.Module:
        """A copy of `model`, which lacks the outputs, that speaks in the labels before; what was dropped is never said.

        Its dropped outputs are there again, without a weight, at a score that no sample comes near to.
        """
        inner, rewrap = unwrapped(model)
        result = copy.deepcopy(inner)
        layer = self._layer(result)
        weight, bias = layer.weight.detach(), _bias(layer)
        known = weight.new_zeros(len(self.kept)) if bias is None else bias
        where = torch.tensor(self.kept, device=weight.device)
        rows = weight.new_zeros(self.num_classes, layer.in_features).index_copy(0, where, weight)
        level = known.new_full((self.num_classes,), _OUT_OF_REACH).index_copy(0, where, known)
        _set(layer, rows, level)
        _recount(result, dict(enumerate(self.kept)), before=len(self.kept), after=self.num_classes)
        return rewrap(result)

    def _layer(self, model: nn.Module) -> nn.Linear:
        try:
            layer = model.get_submodule(self.head)
        except AttributeError as e:
            raise InvalidData(f"the network has no layer {self.head}, whose outputs were dropped; {_FITTING}") from e
        if not isinstance(layer, nn.Linear):
            raise UnsupportedModel(f"{self.head} is a {type(layer).__name__}, where a Linear layer lost outputs")
        if layer.out_features not in (self.num_classes, len(self.kept)):
            raise InvalidData(
                f"{self.head} has {layer.out_features} outputs, where there were {self.num_classes} before some were "
                f"dropped and {len(self.kept)} after; {_FITTING}"
            )
        return layer


_FITTING = "give a network of the kind that forgot"


def _take(layer: nn.Linear, kept: tuple[int, ...]) -> None:
    where = torch.tensor(kept, device=layer.weight.device)
    bias = _bias(layer)
    _set(layer, layer.weight.detach()[where], None if bias is None else bias[where])


def _bias(layer: nn.Linear) -> torch.Tensor | None:
    return layer.state_dict().get("bias")


def _set(layer: nn.Linear, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
    """Other rows in the same module, so that its class, hooks and name stay."""
    trained = layer.weight.requires_grad
    layer.weight = nn.Parameter(weight.clone(), requires_grad=trained)
    if bias is not None:
        layer.bias = nn.Parameter(bias.clone(), requires_grad=trained)
    layer.out_features = len(weight)


def _recount(model: nn.Module, labels: Mapping[int, int], *, before: int, after: int) -> None:
    """Tell modules, and a configuration such as that of `transformers`, of their classes: `labels`, before to after."""
    for module in model.modules():
        for name in _COUNTS:
            if type(vars(module).get(name)) is int and vars(module)[name] == before:
                setattr(module, name, after)
    config: Any = getattr(model, "config", None)
    names = getattr(config, "id2label", None)
    if isinstance(names, Mapping) and len(names) == before:
        config.id2label = {new: names[old] for old, new in labels.items()}
        config.label2id = {name: new for new, name in config.id2label.items()}
