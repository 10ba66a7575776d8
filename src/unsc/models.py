"""A user's model, prepared for work: copied, checked, and its editable layers known."""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import replace

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from unsc.batches import Batch, describe
from unsc.errors import InvalidRequest, UnscError, UnsupportedModel, listing
from unsc.layers import Layer, check_layers, find_layers, names_of_kinds
from unsc.logits import check_logits, logits_of


def working_copy(model: nn.Module) -> nn.Module:
    """A copy in evaluation mode and at least float32, its weights checked to be finite.

    Half precision cannot hold the small displacements that unlearning adds up, so the work is done in
    float32 and rounded once, at the end.
    """
    if not isinstance(model, nn.Module):
        raise UnsupportedModel(
            f"the model is a {type(model).__name__}; give a torch.nn.Module, with its weights loaded if you have a file"
        )
    bad = [
        name
        for name, p in model.named_parameters()
        if not isinstance(p, UninitializedParameter) and p.is_floating_point() and not torch.isfinite(p).all()
    ]
    # A buffer may hold Inf: attention masks do.
    bad += [name for name, b in model.named_buffers() if b.is_floating_point() and torch.isnan(b).any()]
    if bad:
        raise UnsupportedModel(f"NaN or Inf in {listing(bad)}; load a sound checkpoint")
    if not any(True for _ in model.parameters()):
        raise UnsupportedModel(f"{type(model).__name__} has no parameters; give a trained classifier")
    working = copy.deepcopy(model).eval()
    if any(p.dtype in (torch.float16, torch.bfloat16) for p in working.parameters()):
        working = working.float()
    for module in working.modules():
        if isinstance(module, nn.Embedding | nn.EmbeddingBag):
            module.sparse = False  # sparse gradients are no matrices
    return working


@torch.no_grad()
def count_classes(model: nn.Module, batch: Batch) -> int:
    """How many classes `model` knows, by its logits for a few samples."""
    few = batch[torch.arange(min(4, len(batch)))].for_model(model)
    try:
        logits = logits_of(model, few)
    except (TypeError, RuntimeError, ValueError, IndexError, KeyError) as e:
        if isinstance(e, UnscError):
            raise
        raise UnsupportedModel(
            f"the model cannot take this data ({type(e).__name__}: {e}). It is called with {describe(few.inputs)}; "
            "give samples in the form it was trained on"
        ) from e
    check_logits(logits)
    return logits.shape[1]


def editable_layers(
    model: nn.Module, batch: Batch, *, parameters: Collection[str] | None = None
) -> tuple[tuple[Layer, ...], dict[str, str]]:
    """The layers of `model` that can be confined, checked on a few samples, and the frozen rest with reasons.

    `parameters` asks for these parameters alone; it is an error if one of them cannot be confined.
    """
    found = find_layers(model)
    probe = batch[torch.arange(min(4, len(batch)))].for_model(model)

    def forward() -> None:
        check_logits(logits_of(model, probe))

    failed = check_layers(model, found.layers, forward)
    frozen = dict(found.frozen)
    layers = []
    for layer in found.layers:
        if layer.name in failed:
            frozen |= dict.fromkeys(layer.parameters, failed[layer.name])
        else:
            layers.append(layer)
    if parameters is not None:
        if not parameters:
            raise InvalidRequest("parameters=() names nothing to edit; leave it out to edit all that can be confined")
        layers = _requested(layers, set(parameters), frozen, dict(model.named_parameters()))
    if not layers:
        reasons = "; ".join(f"{name}: {why}" for name, why in list(frozen.items())[:8])
        raise UnsupportedModel(
            f"nothing in this model can be edited. Trainable weights of {names_of_kinds()} can. "
            f"Frozen here: {reasons or 'all parameters'}"
        )
    return tuple(layers), frozen


def _requested(
    layers: list[Layer], wanted: set[str], frozen: dict[str, str], known: dict[str, nn.Parameter]
) -> list[Layer]:
    unknown = sorted(wanted - known.keys())
    if unknown:
        raise InvalidRequest(f"the model has no parameters {listing(unknown)}; it has {listing(known)}")
    chosen = [_without_unwanted_biases(x, wanted) for x in layers if x.weight.parameter in wanted]
    covered = {name for layer in chosen for name in layer.parameters}
    impossible = sorted(wanted - covered)
    if impossible:
        reasons = "; ".join(f"{name}: {frozen.get(name, 'a bias moves only with its weight')}" for name in impossible)
        raise InvalidRequest(f"these parameters cannot be confined: {reasons}. Leave them out of parameters=...")
    frozen |= {n: "not requested" for x in layers for n in x.parameters if n not in covered}
    return chosen


def _without_unwanted_biases(layer: Layer, wanted: set[str]) -> Layer:
    uses = tuple(replace(u, bias=None) if u.bias and u.bias.parameter not in wanted else u for u in layer.uses)
    return replace(layer, uses=uses)
