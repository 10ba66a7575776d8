"""Targets of many samples, of which a run may need only some."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class FitTargets:
    """Target distributions of the samples that are learned from, each made when it is first asked for."""

    def __init__(self, samples: int, make: Callable[[Tensor], Tensor]) -> None:
        """`make` gives those of the samples at positions (k,), (k, classes), on the network's device."""
        self._make = make
        self._made: Tensor | None = None
        self._is_made = torch.zeros(samples, dtype=torch.bool)

    @classmethod
    def ready(cls, targets: Tensor) -> FitTargets:
        """All (n, classes) are at hand."""
        return cls(len(targets), lambda positions: targets[positions.to(targets.device)])

    def __getitem__(self, positions: Tensor) -> Tensor:
        """(k, classes), for positions (k,). All ranks ask for the same ones: each makes a part of them."""
        missing = positions[~self._is_made[positions]]
        if len(missing):
            made = self._make(missing)
            if self._made is None:
                self._made = made.new_zeros(len(self._is_made), made.shape[1])
            self._made[missing.to(made.device)] = made
            self._is_made[missing] = True
        if self._made is None:
            return self._make(positions)  # of no samples
        return self._made[positions.to(self._made.device)]
