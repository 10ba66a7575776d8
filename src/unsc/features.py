"""What a network's layers are given, and its head: the linear layer that gives a score for each class.

The head is found in two ways. `find_head` wants the layer whose outputs are the logits themselves: a method that edits
it edits the logits, so nothing may come after it. `find_last_linear` wants the last layer with an output for each class
that is run: whoever puts another head on the features does not care what the network does with its scores.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from unsc.batches import Batch, pieces
from unsc.errors import UnsupportedModel, listing
from unsc.layers import Call, hooked, kind_of, names_of_kinds, needed_kind
from unsc.logits import logits_of
from unsc.models import working_copy
from unsc.pooled_head import averaged

_FLAT = 256
"""Up to this many values a sample keeps all of its positions; beyond it their mean."""


@dataclass(frozen=True)
class Head:
    """A linear layer with an output for each class."""

    path: str
    layer: nn.Linear


@torch.no_grad()
def find_head(model: nn.Module, batch: Batch) -> Head:
    """The linear layer whose outputs for `batch`, bit for bit, are the logits of `model`."""
    linear = _linear_layers(model)
    outputs: dict[str, Tensor] = {}

    def receive(call: Call[Any]) -> None:
        if isinstance(call.output, Tensor):  # subclasses may return anything
            outputs[call.path] = call.output.clone()  # what follows may work in place

    with hooked(linear, receive):
        logits = logits_of(model, batch.for_model(model))
    found = [path for path, output in outputs.items() if torch.equal(output, logits)]
    if not found:
        raise UnsupportedModel(
            f"no Linear layer of this model returns its logits (looked at {listing(linear) or 'none'}); this method "
            "needs one, so choose another method, or let the model end with its nn.Linear"
        )
    return Head(found[-1], linear[found[-1]])


@torch.no_grad()
def find_last_linear(model: nn.Module, batch: Batch, num_classes: int) -> Head:
    """The last Linear with an output for each class that a forward pass on `batch` runs, whatever follows it."""
    linear = _linear_layers(model)
    with inputs_of_layers(model, linear) as seen:
        logits_of(model, batch.for_model(model))
    for path in reversed(seen):
        if linear[path].out_features == num_classes:
            return Head(path, linear[path])
    raise UnsupportedModel(
        f"the model runs no Linear with {num_classes} outputs, one for each class; a head on its features needs one"
    )


@torch.no_grad()
def head_inputs(model: nn.Module, head: Head, batches: Iterable[Batch]) -> Iterator[Batch]:
    """The features: what `head` is given for each batch, (n, units), with the batch's labels.

    Those of a head whose scores are averaged (`pooled_head.py`) are its inputs' means over positions.
    """
    with inputs_of_layers(model, [head.path]) as seen:
        for batch in batches:
            logits_of(model, batch.for_model(model))
            given = averaged(model.get_submodule(head.path), seen[head.path])
            yield Batch(given.cpu(), batch.labels.cpu())


@contextmanager
def inputs_of_layers(model: nn.Module, paths: Collection[str] | None = None) -> Generator[dict[str, Tensor]]:
    """While active, a forward pass fills in the input of each layer, by path, in the order of their last run.

    Layers are those at `paths`, or all that take one input. Inputs are as they are, with their gradients.
    """
    modules = {path: module for path, module in model.named_modules() if paths is None or path in paths}
    kinds = {path: kind for path, module in modules.items() if (kind := kind_of(module)) is not None}
    seen: dict[str, Tensor] = {}

    def receive(call: Call[Any]) -> None:
        x = kinds[call.path].features(call)
        if x is not None:
            seen.pop(call.path, None)  # so that a layer stands where it was run last
            seen[call.path] = x

    with hooked({path: modules[path] for path in kinds}, receive):
        yield seen


@torch.no_grad()
def layer_inputs(model: nn.Module, batch: Batch, *, size: int = 256) -> dict[str, Tensor]:
    """The input of every layer of one input that `model` really uses, float32 (n, values), by the layer's path.

    In the order in which they are run, one that is run several times at its last: the last entry is what the last
    layer decides by. Two networks of one architecture have the same order even if one is wrapped in another
    module and its names differ. An input whose first dimension is not the samples is left out.
    """
    working = working_copy(model)
    samples = batch.for_model(working)
    found: dict[str, list[Tensor]] = {}
    for piece in pieces(samples, size):
        with inputs_of_layers(working) as seen:
            logits_of(working, piece)
        for path, x in seen.items():
            if x.dim() >= 2 and len(x) == len(piece):
                module = working.get_submodule(path)
                values = pooled(x, channels=needed_kind(module).channels(module))
                found.setdefault(path, []).append(values.float().cpu())
    whole = {path: torch.cat(parts) for path, parts in found.items()}
    whole = {path: x for path, x in whole.items() if len(x) == len(samples)}
    if not whole:
        raise UnsupportedModel(
            f"the model runs no layer on a batch of samples, so there are no features to see; layers are those of "
            f"{names_of_kinds()}"
        )
    return whole


def pooled(x: Tensor, *, channels: int) -> Tensor:
    """A layer's input as (n, values): all of it if that is little, else the mean over all but `channels`."""
    if x.dim() == 2 or x[0].numel() <= _FLAT:
        return x.flatten(1)
    return x.movedim(channels, 1).flatten(2).mean(dim=2)


def _linear_layers(model: nn.Module) -> dict[str, nn.Linear]:
    return {path: module for path, module in model.named_modules() if isinstance(module, nn.Linear)}
