"""Ranks: where values stand among others."""

from __future__ import annotations

import torch
from torch import Tensor


def place_among(values: Tensor, pool: Tensor) -> Tensor:
    """The share of the `pool` (m,) that each of `values` (n,) is above, with ties counted half: inside 0 to 1.

    The values of the pool itself get (i + 0.5) / m in their order, if no two are equal.
    """
    ordered = pool.sort().values
    below = torch.searchsorted(ordered, values.contiguous())
    up_to = torch.searchsorted(ordered, values.contiguous(), right=True)
    half = 0.5 / len(pool)
    return ((below + up_to) / (2 * len(pool))).clamp(half, 1 - half)


def value_at(place: Tensor, pool: Tensor) -> Tensor:
    """The values of the `pool` (m,) at these places, 0 to 1, interpolated: the inverse of `place_among`."""
    position = (place * len(pool) - 0.5).clamp(0, len(pool) - 1)
    ordered = pool.sort().values
    below = position.floor().long()
    above = (below + 1).clamp(max=len(pool) - 1)
    return torch.lerp(ordered[below], ordered[above], (position - below).to(ordered))


def auc(first: Tensor, second: Tensor) -> float:
    """The share of pairs in which the value of `first` (n,) is above that of `second` (m,), with ties counted half."""
    ordered = second.double().sort().values
    values = first.double().contiguous()
    below = torch.searchsorted(ordered, values)
    up_to = torch.searchsorted(ordered, values, right=True)
    return ((below + up_to).double().mean() / (2 * len(ordered))).item()


def agreement(first: Tensor, second: Tensor) -> float:
    """Spearman's rank correlation of two (n,); 0 if one of them is constant."""
    ranks = torch.stack([place_among(v, v).double() for v in (first, second)])
    if (ranks.std(dim=1) == 0).any():
        return 0.0
    return torch.corrcoef(ranks)[0, 1].item()
