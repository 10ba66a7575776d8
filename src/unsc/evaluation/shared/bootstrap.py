"""Bootstrap intervals: draw as many samples as there are, with replacement, and see how far a statistic moves.

An interval holds for other samples of the same kind, the models being what they are; it does not say how far another
training run would move the number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_AT_ONCE = 4_000_000
"""Numbers in memory at a time."""


def intervals(
    statistics: Callable[..., Tensor], sizes: Sequence[int], *, seed: int, resamples: int = 1000, level: float = 0.95
) -> list[tuple[float, float]]:
    """Percentile intervals (low, high) of k statistics.

    The samples come in strata of the given `sizes`, each resampled by itself. `statistics` is called with one tensor
    for each stratum, which says how often each of its samples was drawn, int64 (r, size), and gives (r, k).
    """
    generator = torch.Generator().manual_seed(seed)
    at_once = max(1, _AT_ONCE // sum(sizes))
    found = []
    for start in range(0, resamples, at_once):
        r = min(at_once, resamples - start)
        found.append(statistics(*(multiplicities(n, r, generator) for n in sizes)))
    edges = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)
    low, high = torch.cat(found).double().quantile(edges, dim=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def multiplicities(n: int, resamples: int, generator: torch.Generator) -> Tensor:
    """How often each of `n` samples is among n draws with replacement, int64 (resamples, n)."""
    drawn = torch.randint(n, (resamples, n), generator=generator)
    drawn += n * torch.arange(resamples)[:, None]
    return torch.bincount(drawn.flatten(), minlength=n * resamples).view(resamples, n)
