"""A network's head: the last linear layer, whose outputs are the logits. What goes into it are the features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.errors import UnsupportedModel, listing
from unsc.logits import logits_of


@torch.no_grad()
def find_head(model: nn.Module, batch: Batch) -> str:
    """The path of the linear layer whose outputs for `batch`, bit for bit, are the logits of `model`."""
    outputs: dict[str, Tensor] = {}
    linear = [path for path, module in model.named_modules() if isinstance(module, nn.Linear)]

    def keep(path: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple, kwargs: dict[str, Any], output: Tensor) -> None:
            outputs[path] = output

        return hook

    with _hooked(model, {path: keep(path) for path in linear}):
        logits = logits_of(model, batch.for_model(model))
    found = [path for path, output in outputs.items() if torch.equal(output, logits)]
    if not found:
        raise UnsupportedModel(
            f"no linear layer of this model returns its logits (looked at {listing(linear) or 'none'}); this method "
            "needs one, so choose another method, or let the model end with its nn.Linear"
        )
    return found[-1]


@torch.no_grad()
def features(model: nn.Module, head: str, batches: Iterable[Batch]) -> Iterator[Batch]:
    """What the layer `head` is given for each batch, (n, units), with the batch's labels."""
    seen: list[Tensor] = []

    def hook(module: nn.Module, args: tuple, kwargs: dict[str, Any], output: Tensor) -> None:
        seen.append(args[0] if args else kwargs["input"])

    with _hooked(model, {head: hook}):
        for batch in batches:
            seen.clear()
            logits_of(model, batch.for_model(model))
            yield Batch(seen[-1].cpu(), batch.labels.cpu())


@contextmanager
def _hooked(model: nn.Module, hooks: dict[str, Callable[..., None]]) -> Iterator[None]:
    handles = []
    try:
        for path, hook in hooks.items():
            handles.append(model.get_submodule(path).register_forward_hook(hook, with_kwargs=True))
        yield
    finally:
        for handle in handles:
            handle.remove()
