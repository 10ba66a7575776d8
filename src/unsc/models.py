"""A user's model, prepared for work: copied, checked, and its editable layers known."""

from __future__ import annotations

import copy
import difflib
import fnmatch
from collections.abc import Collection
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from unsc import peers
from unsc.batches import Batch, describe, tensors_of
from unsc.errors import InvalidRequest, UnscError, UnsupportedModel, listing
from unsc.layers import Layer, check_layers, find_layers, names_of_kinds
from unsc.logits import AsLogits, OfOutput, check_logits, check_not_sigmoid, logits_of
from unsc.sharded import is_sharded, is_workable, sharded_copy, whole_copy
from unsc.shards import is_shard, local
from unsc.storage.hashes import sha256_of_weights
from unsc.wrappers import check_editable, make_eager, without_wrappers


def working_copy(model: nn.Module, *, logits: OfOutput | None = None) -> nn.Module:
    """A copy without wrappers, in evaluation mode and at least float32, its weights checked to be finite.

    Half precision cannot hold the small displacements that unlearning adds up, so the work is done in
    float32 and rounded once, at the end. The copy returns the `logits` of what the model returns, if that is given.
    Where ranks share the work on a sharded model, the copy is sharded too.
    """
    model = without_wrappers(model).inner
    check_editable(model)
    if empty := [name for name, p in model.named_parameters() if p.is_meta]:
        raise UnsupportedModel(
            f"{listing(empty)} are on the meta device, which holds no values; load the weights first"
        )
    bad = [
        name
        for name, p in model.named_parameters()
        if not isinstance(p, UninitializedParameter) and p.is_floating_point() and not torch.isfinite(local(p)).all()
    ]
    # A buffer may hold Inf: attention masks do.
    bad += [name for name, b in model.named_buffers() if b.is_floating_point() and torch.isnan(b).any()]
    if bad:
        raise UnsupportedModel(f"NaN or Inf in {listing(bad)}; load a sound checkpoint")
    if not any(True for _ in model.parameters()):
        raise UnsupportedModel(f"{type(model).__name__} has no parameters; give a trained classifier")
    if not is_sharded(model):
        working = _ready(copy.deepcopy(model))
    elif is_workable(model):
        working = sharded_copy(model, _ready)
    else:
        working = _ready(whole_copy(model))
    if logits is not None:
        working.register_forward_hook(AsLogits(logits))
    return working


def _ready(working: nn.Module) -> nn.Module:
    """A copy that is ours, as the work takes it."""
    working = working.eval()
    make_eager(working)
    if any(p.dtype in (torch.float16, torch.bfloat16) for p in working.parameters()):
        working = working.float()
    for module in working.modules():
        if isinstance(module, nn.Embedding | nn.EmbeddingBag):
            module.sparse = False  # sparse gradients are no matrices
    return working


def digest_of(model: nn.Module) -> str:
    """What tells two networks apart, for several ranks to compare: names, shapes and weights.

    Of shards, of which each rank has others, names and shapes.
    """
    if peers.count() == 1:
        return ""
    state = without_wrappers(model).inner.state_dict()
    if any(is_shard(t) for t in state.values() if torch.is_tensor(t)):
        return peers.digest(repr([(name, tuple(t.shape)) for name, t in state.items() if torch.is_tensor(t)]))
    return sha256_of_weights({name: t for name, t in state.items() if torch.is_tensor(t)})[:16]


@torch.no_grad()
def count_classes(model: nn.Module, batch: Batch) -> int:
    """How many classes `model` knows, by its logits for a few samples."""
    few, logits = said_of_few(model, batch)
    check_logits(logits)
    _check_inputs_stay(model, batch, few, logits)
    check_not_sigmoid(model, few)
    return logits.shape[1]


@torch.no_grad()
def said_of_few(model: nn.Module, batch: Batch, what: str = "this data") -> tuple[Batch, Tensor]:
    """A few samples and their logits, or an error that says why `model` cannot take them; `what` they are, in words."""
    few = batch[torch.arange(min(4, len(batch)))].for_model(model)
    try:
        return few, logits_of(model, few)
    except (TypeError, RuntimeError, ValueError, IndexError, KeyError) as e:
        if isinstance(e, UnscError):
            raise
        raise UnsupportedModel(
            f"the model cannot take {what} ({type(e).__name__}: {e}). It is called with {describe(few.inputs)}; "
            "give samples in the form it was trained on"
        ) from e


def _check_inputs_stay(model: nn.Module, batch: Batch, few: Batch, logits: Tensor) -> None:
    """Refuse a model that overwrites its inputs: samples that are looked at again would not be what they were.

    `few` of a batch were passed already, with these `logits`. What a second pass does not see does no harm.
    """
    before = batch[torch.arange(len(few))].for_model(model)
    pairs = zip(tensors_of(before.inputs), tensors_of(few.inputs), strict=True)
    if all(torch.equal(x, y) for x, y in pairs):
        return
    if not torch.allclose(logits_of(model, few), logits, rtol=1e-3, atol=1e-3 * logits.abs().max().item()):
        raise UnsupportedModel(
            "the model overwrites its inputs (such as by x.sub_(mean) or x *= 2), so that a sample is another one when "
            "it is looked at again; let it work on a copy (x = x - mean)"
        )


def editable_layers(
    model: nn.Module, batch: Batch, *, parameters: Collection[str] | None = None
) -> tuple[tuple[Layer, ...], dict[str, str]]:
    """The layers of `model` that can be confined, checked on a few samples, and the frozen rest with reasons.

    `parameters` asks for these alone: names, which must all be of parameters that can be confined, or patterns such
    as `layer4.*`, which choose those that can.
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
        names = [name for name, _ in model.named_parameters()]
        editable = {name for layer in layers for name in layer.parameters}
        layers = _requested(layers, _named(parameters, names, editable), frozen)
    if not layers:
        reasons = "; ".join(f"{name}: {why}" for name, why in list(frozen.items())[:8])
        raise UnsupportedModel(
            f"nothing in this model can be edited. Trainable weights of {names_of_kinds()} can. "
            f"Frozen here: {reasons or 'all parameters'}"
        )
    return tuple(layers), frozen


def _named(wanted: Collection[str], names: list[str], editable: set[str]) -> set[str]:
    """The parameters that are `wanted` by name, and those that a pattern matches and that are `editable`."""
    found: set[str] = set()
    unknown: list[str] = []
    for one in [wanted] if isinstance(wanted, str) else wanted:
        if one in names:
            found.add(one)
        elif not (matching := fnmatch.filter(names, one)):
            unknown.append(one)
        elif not editable.intersection(matching):
            found.update(matching)  # none of them can be confined: the error that follows has the reasons
        else:
            found.update(editable.intersection(matching))
    if unknown:
        near = [name for one in unknown for name in difflib.get_close_matches(one, names, n=3, cutoff=0.5)]
        hint = f"did you mean {listing(dict.fromkeys(near))}? It" if near else "it"
        raise InvalidRequest(f"the model has no parameters {listing(unknown)}; {hint} has {listing(names)}")
    return found


def _requested(layers: list[Layer], wanted: set[str], frozen: dict[str, str]) -> list[Layer]:
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
