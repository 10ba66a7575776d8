"""How the weights of convolutions lie in memory, which decides how fast a processor is done with them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx, nn

from unsc.batches import Batch
from unsc.logits import logits_of
from unsc.sharded import is_sharded

_PROBED = 4
"""Samples that show whether a network works with another layout."""


@torch.no_grad()
def channels_last(model: nn.Module, batch: Batch) -> None:
    """Lay out `model`, in place, so that its 2-d convolutions go over channels first, where that can be done.

    A processor takes half the time for them, and numbers stay what they were but for rounding. Networks that look at
    their activations' memory (`x.view(...)`) may fail with this layout: such ones keep the one they have.
    """
    if is_sharded(model):
        return  # parts of a tensor are laid out as it was
    weights = [w for m in model.modules() if isinstance(m, nn.Conv2d) and (w := _stored(m)) is not None]
    if not weights:
        return
    few = batch[torch.arange(min(_PROBED, len(batch)))].for_model(model)
    wanted = logits_of(model, few)
    before = [w.data for w in weights]
    for w in weights:
        w.data = _laid_out(w.data)
    try:
        works = torch.allclose(logits_of(model, few), wanted, rtol=1e-3, atol=1e-3 * wanted.abs().max().item())
    except RuntimeError:
        works = False
    if not works:
        for w, data in zip(weights, before, strict=True):
            w.data = data


def _laid_out(weight: Tensor) -> Tensor:
    """A weight (outputs, channels, height, width) with its channels side by side.

    By its strides: of one channel, as grey pictures have, PyTorch takes both layouts for the same, leaves the weight as
    it is, and goes on with the slow one.
    """
    _, channels, height, width = weight.shape
    strides = (channels * height * width, 1, channels * width, channels)
    return torch.empty_strided(weight.shape, strides, dtype=weight.dtype, device=weight.device).copy_(weight)


def _stored(module: nn.Conv2d) -> nn.Parameter | None:
    """The weight, if it is a parameter of its own that lies in the memory of a processor, in its fast precision."""
    w = module._parameters.get("weight")  # pyright: ignore[reportPrivateUsage]  # a parametrization makes it anew
    return w if w is not None and w.device.type == "cpu" and w.dtype == torch.float32 else None


def keep_layouts(traced: fx.GraphModule) -> fx.GraphModule:
    """Let gradients in a traced network, which is changed in place, lie in memory as the values do that they belong to.

    What comes back from a mean over positions, or from every other pixel, lies in another order. Where that meets
    values with channels last, each operation goes through memory in two orders at once, some for ten times as long.
    """
    for node in list(traced.graph.nodes):
        if node.op in ("call_function", "call_method", "call_module") and node.users:
            users = tuple(node.users)
            with traced.graph.inserting_after(node):
                kept = traced.graph.call_function(_keeping_layout, (node,))
            for user in users:
                user.replace_input_with(node, kept)
    traced.recompile()
    return traced


def _keeping_layout(value: Any) -> Any:
    """A value as it is; if it is a tensor with channels last, its gradient will be one too."""
    if torch.is_tensor(value) and value.requires_grad and value.dim() == 4 and _is_last(value):
        value.register_hook(_with_channels_last)
    return value


def _is_last(value: Tensor) -> bool:
    return value.is_contiguous(memory_format=torch.channels_last) and not value.is_contiguous()


def _with_channels_last(gradient: Tensor) -> Tensor:
    return gradient.contiguous(memory_format=torch.channels_last)
