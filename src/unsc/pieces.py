"""How many samples go through a network at once.

On a graphics card more at once take less time. On a processor they may take more: what the C library does not keep of
freed activations goes back to the system, and is had anew, page by page and zeroed, by the next layer. A pass of few
samples stays below what it keeps, and one of very few multiplies badly.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

_LOOKED_AT: Mapping[str, int] = {"cpu": 64}
_LEARNED_FROM: Mapping[str, int] = {"cpu": 32}
"""By type of device. What is kept for a backward pass is as much again as what a forward pass holds."""


def looked_at(device: torch.device) -> int:
    """Samples in a forward pass alone, at most."""
    return _LOOKED_AT.get(device.type, 256)


def learned_from(device: torch.device) -> int:
    """Samples in a forward and a backward pass, at most."""
    return _LEARNED_FROM.get(device.type, 64)
