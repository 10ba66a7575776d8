"""Dropout that does not take longer than the network on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_STEPS = 2**16
"""How many values a part of a drawn number has; a probability is met to half a step."""


class Dropout(nn.Dropout):
    """`nn.Dropout` with four outputs served by each number that is drawn.

    PyTorch draws one for every output, one after the other, which takes as long as all else that AlexNet does. Here a
    number of 64 bits is four of 16, each of which says whether an output is kept.
    """

    def forward(self, input: Tensor) -> Tensor:
        kept = round((1 - self.p) * _STEPS)
        if not self.training or kept == _STEPS:
            return input
        drawn = torch.empty(-(-input.numel() // 4), dtype=torch.int64, device=input.device).random_(-(2**63), None)
        # In the input's own order in memory: another one would cost more than the numbers.
        order = torch.empty_like(input).stride()
        parts = drawn.view(torch.int16)[: input.numel()].as_strided(input.shape, order)
        scale = _STEPS / kept if kept else 0.0
        return input * (parts < kept - _STEPS // 2).to(input.dtype).mul_(scale)
