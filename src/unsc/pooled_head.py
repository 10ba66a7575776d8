"""A head that is a convolution of one pixel whose outputs are averaged over the image, as in SqueezeNet or All-CNN.

The mean of `W x + b` over positions is `W (mean x) + b`: such a head is a linear layer on averaged inputs. So what is
done to the outputs of a linear head can be done to it, through a `Linear` that has the convolution's own memory.
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
"""Of rounding, relative to the largest logit."""


@torch.no_grad()
def find_pooled_head(model: nn.Module, batch: Batch) -> str | None:
    """The path of the convolution whose outputs for `batch`, averaged over positions, are the logits of `model`."""
    candidates = {path: module for path, module in model.named_modules() if _is_pixelwise(module)}
    outputs: dict[str, object] = {}

    def receive(call: Call[Any]) -> None:
        outputs[call.path] = call.output.clone()  # what follows may work in place

    with hooked(candidates, receive):
        logits = logits_of(model, batch.for_model(model))
    return next((path for path in reversed(outputs) if _gives(outputs[path], logits)), None)


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


def _gives(output: object, logits: Tensor) -> bool:
    if not isinstance(output, Tensor) or output.dim() != 4 or output.shape[:2] != logits.shape:
        return False
    return bool((output.mean(dim=(2, 3)) - logits).abs().max() <= _TOLERANCE * logits.abs().max())
