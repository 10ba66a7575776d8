"""What the original network said of retained samples to fit, kept from passes that were made for something else."""

from __future__ import annotations

import torch
from torch import Tensor

from unsc import peers

_MOST = 1024
"""Samples whose logits are kept."""


class Said:
    """Logits of some samples, and where the samples are."""

    def __init__(self) -> None:
        self._positions: list[Tensor] = []
        self._logits: list[Tensor] = []

    def __len__(self) -> int:
        return sum(map(len, self._positions))

    def keep(self, positions: Tensor, logits: Tensor) -> None:
        """Logits (n, classes) of the samples at `positions` (n,), as far as there is room for them.

        Of several ranks each has its own share of them, one perhaps all. Then positions alone are kept, so that every
        rank asks the original for the same.
        """
        room = min(len(positions), _MOST - len(self))
        if room > 0:
            self._positions.append(positions[:room])
        if room > 0 and peers.count() == 1:
            self._logits.append(logits[:room])

    def first(self, count: int) -> tuple[Tensor, list[Tensor]]:
        """Positions (k,) of at most `count` samples, in the order in which they came, and their logits, if known."""
        positions = torch.cat([*self._positions, torch.zeros(0, dtype=torch.long)])[:count]
        known = len(self._logits) == len(self._positions) > 0
        return positions, [torch.cat(self._logits)[:count]] if known else []
