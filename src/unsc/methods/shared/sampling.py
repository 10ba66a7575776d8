"""Samples drawn class by class."""

from __future__ import annotations

import torch
from torch import Tensor


def some_of_each_class(labels: Tensor, limit: int, generator: torch.Generator) -> Tensor:
    """Positions (k,) of at most `limit` random samples of each class of `labels` (n,), class after class."""
    order = torch.randperm(len(labels), generator=generator)
    return torch.cat([order[labels[order] == k][:limit] for k in labels.unique().tolist()])
