"""Heads whose scores for single positions are averaged, or normalised by a softmax, before they are the logits.

The mean of `W x + b` over positions is `W (mean x) + b`: a head of that kind is a linear layer on averaged inputs, also
where it is a convolution of one pixel, as in SqueezeNet or All-CNN. And a prediction does not see what all logits of a
sample share, which is all that a log-softmax changes. So what is done to the outputs of a linear head can be done to
these; to a convolution through a `Linear` that has its memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.layers import Call, hooked
from unsc.logits import logits_of
from unsc.shards import is_shard

_TOLERANCE = 1e-4
"""Of rounding, relative to the largest difference of a logit from the mean of its sample."""


@torch.no_grad()
def find_pooled_head(model: nn.Module, batch: Batch) -> str | None:
    """The path of the layer whose outputs for `batch`, averaged over positions, give the predictions of `model`."""
    candidates = {path: m for path, m in model.named_modules() if isinstance(m, nn.Linear) or _is_pixelwise(m)}
    outputs: dict[str, Tensor] = {}

    def receive(call: Call[Any]) -> None:
        if isinstance(call.output, Tensor):  # subclasses may return anything
            outputs[call.path] = averaged(call.module, call.output).clone()  # what follows may work in place

    with hooked(candidates, receive):
        logits = logits_of(model, batch.for_model(model))
    return next((path for path in reversed(outputs) if _gives(outputs[path], logits)), None)


def averaged(module: nn.Module, x: Tensor) -> Tensor:
    """What a linear layer or a convolution is given, or returns, as its mean over positions: (n, units)."""
    if x.dim() <= 2:
        return x
    return x.movedim(1 if isinstance(module, nn.Conv2d) else -1, -1).flatten(1, -2).mean(dim=1)


def as_linear(convolution: nn.Conv2d) -> nn.Linear:
    """A linear layer in the memory of a convolution of one pixel: what is written to either is in both."""
    with torch.device("meta"):
        made = nn.Linear(convolution.in_channels, convolution.out_channels, bias=convolution.bias is not None)
    weight = convolution.weight.detach()
    made.weight = nn.Parameter(weight.view(weight.shape[:2]), requires_grad=False)
    if convolution.bias is not None:
        made.bias = nn.Parameter(convolution.bias.detach(), requires_grad=False)
    return made


def _is_pixelwise(module: nn.Module) -> bool:
    if type(module) is not nn.Conv2d or any(is_shard(p) for p in module.parameters()):
        return False
    plain = {name for name, _ in module.named_parameters()} <= {"weight", "bias"}
    whole = module.kernel_size == module.stride == (1, 1) and module.padding == (0, 0) and module.groups == 1
    return plain and whole


def _gives(scores: Tensor, logits: Tensor) -> bool:
    if scores.shape != logits.shape:
        return False
    wanted, found = (z - z.mean(dim=1, keepdim=True) for z in (logits, scores))
    return bool((found - wanted).abs().max() <= _TOLERANCE * wanted.abs().max())
