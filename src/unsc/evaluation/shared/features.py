"""What a network makes of its samples on the way: the inputs of its layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.errors import UnsupportedModel
from unsc.layers import CONVOLUTIONS
from unsc.logits import logits_of
from unsc.models import working_copy

_FLAT = 256
"""Up to this many values a sample keeps all of its positions; beyond it their mean."""


@torch.no_grad()
def layer_inputs(model: nn.Module, batch: Batch, *, size: int = 256) -> dict[str, Tensor]:
    """The input of every Linear and Conv layer that `model` really uses, float32 (n, values), by the layer's name.

    In the order in which they are run, one that is run several times at its last: the last entry is what the last
    layer decides by. Two networks of one architecture have the same order even if one is wrapped in another
    module and its names differ. An input whose first dimension is not the samples is left out.
    """
    working = working_copy(model)
    samples = batch.for_model(working)
    found: dict[str, list[Tensor]] = {}
    for chosen in torch.arange(len(samples), device=samples.labels.device).split(size):
        with seen_by_layers(working) as seen:
            logits_of(working, samples[chosen])
        for name, x in seen.items():
            if x.dim() >= 2 and len(x) == len(chosen):
                convolution = isinstance(working.get_submodule(name), CONVOLUTIONS)
                found.setdefault(name, []).append(pooled(x, channels=1 if convolution else -1).float().cpu())
    whole = {name: torch.cat(pieces) for name, pieces in found.items()}
    whole = {name: x for name, x in whole.items() if len(x) == len(samples)}
    if not whole:
        raise UnsupportedModel(
            "the model runs no Linear or Conv layer on a batch of samples; it has no features to see"
        )
    return whole


def pooled(x: Tensor, *, channels: int) -> Tensor:
    """A layer's input as (n, values): all of it if that is little, else the mean over all but `channels`."""
    if x.dim() == 2 or x[0].numel() <= _FLAT:
        return x.flatten(1)
    return x.movedim(channels, 1).flatten(2).mean(dim=2)


@contextmanager
def seen_by_layers(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """While active, a forward pass fills in the input of each Linear and Conv layer, in the order of their last run."""
    seen: dict[str, Tensor] = {}

    def hook(name: str) -> Callable[..., None]:
        def call(module: nn.Module, args: tuple, kwargs: dict) -> None:
            seen.pop(name, None)  # so that a layer stands where it was run last
            seen[name] = args[0] if args else next(iter(kwargs.values()))

        return call

    handles = []
    try:
        for name, module in model.named_modules():
            if isinstance(module, (nn.Linear, *CONVOLUTIONS)):
                handles.append(module.register_forward_pre_hook(hook(name), with_kwargs=True))
        yield seen
    finally:
        for handle in handles:
            handle.remove()
