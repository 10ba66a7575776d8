"""The moment of a convolution's patches, without the patches.

Two columns of the patches are two entries of the kernel, each at one channel: the product of the columns is a sum over
positions of one channel times another that lies a fixed distance away, the lag. All pairs of entries equally far apart
share these products, but for positions at the border. So each lag is multiplied once, 13 of them instead of 81 pairs
for a kernel of 3 x 3, and the input is copied once instead of nine times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from math import prod

import torch
from torch import Tensor

from unsc.layers.layer import Layer, Use
from unsc.layers.rows import Correlations, Strided
from unsc.memory import ran_out

_MOST_SUMMED = 2048
"""Terms that are summed in the input's own precision, as for rows: `Moment` says why."""
_FEWEST_CHANNELS = 8
_CALLS = 4
"""Batches that a moment is made from, as far as one of them can tell."""
_WORTH = 2.0
"""How many times fewer products it must take than unfolded patches."""


@dataclass(frozen=True)
class Geometry:
    """Where a kernel goes over an input, dimension by dimension."""

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    """Zeros before and after."""

    def seen(self, dim: int) -> Tensor:
        """Which positions (kernel, size) of the input each entry of the kernel is multiplied with, bool."""
        size, (before, after) = self.sizes[dim], self.padding[dim]
        reach = self.dilation[dim] * (self.kernel[dim] - 1) + 1
        count = (size + before + after - reach) // self.stride[dim] + 1
        first = torch.arange(self.kernel[dim]) * self.dilation[dim] - before
        at = first[:, None] + torch.arange(count) * self.stride[dim]
        found = torch.zeros(self.kernel[dim], size, dtype=torch.bool)
        inside = (at >= 0) & (at < size)
        found[torch.arange(self.kernel[dim])[:, None].expand_as(at)[inside], at[inside]] = True
        return found


@dataclass(frozen=True)
class Lag:
    """Pairs of the kernel's entries that lie equally far apart."""

    pairs: tuple[tuple[int, int], ...]
    rows: int
    """How far apart they are along all dimensions but the last, taken as one."""
    shift: int
    """And along the last one."""
    runs: tuple[tuple[int, int, Tensor], ...]
    """Runs `start:stop` along the last dimension that are alike for all pairs, with 1 where a pair has a product there,
    (pairs, rows), and 0 where it has none."""


@lru_cache(maxsize=256)
def lags_of(geometry: Geometry) -> tuple[Lag, ...]:
    """Every lag of a kernel once: that of (a, b) is the reverse of that of (b, a)."""
    entries = list(product(*map(range, geometry.kernel)))
    found: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for a, b in product(range(len(entries)), repeat=2):
        if a <= b:
            apart = tuple((j - i) * d for i, j, d in zip(entries[a], entries[b], geometry.dilation, strict=True))
            found.setdefault(apart, []).append((a, b))
    seen = [geometry.seen(dim) for dim in range(len(geometry.sizes))]
    made = (_lag(geometry, apart, entries, pairs, seen) for apart, pairs in found.items())
    return tuple(lag for lag in made if lag is not None)


def _lag(
    geometry: Geometry,
    apart: tuple[int, ...],
    entries: list[tuple[int, ...]],
    pairs: list[tuple[int, int]],
    seen: list[Tensor],
) -> Lag | None:
    """None if the input is too small for any product of this lag."""
    if any(abs(shift) >= size for shift, size in zip(apart, geometry.sizes, strict=True)):
        return None
    *others, last = [
        _both(own, shift)[[entries[a][dim] for a, _ in pairs]]
        for dim, (own, shift) in enumerate(zip(seen, apart, strict=True))
    ]
    rows = torch.ones(len(pairs), 1, dtype=torch.bool)
    offset = 0
    for mask, shift, size in zip(others, apart, geometry.sizes, strict=False):
        rows = (rows[:, :, None] & mask[:, None, :]).flatten(1)
        offset = offset * size + shift
    if offset:
        rows = rows[:, : rows.shape[1] - offset]
    runs = tuple((start, stop, rows & last[:, start, None]) for start, stop in _alike(last) if last[:, start].any())
    return Lag(tuple(pairs), offset, apart[-1], runs)


def _both(seen: Tensor, shift: int) -> Tensor:
    """Where a position (kernel, size) is seen, and the one `shift` away is inside of the input."""
    size = seen.shape[1]
    there = torch.arange(size) + shift
    return seen & (there >= 0) & (there < size)


def _alike(columns: Tensor) -> Iterator[tuple[int, int]]:
    """The runs of equal columns of (pairs, n)."""
    changes = (columns[:, 1:] != columns[:, :-1]).any(dim=0).nonzero().flatten() + 1
    yield from pairwise([0, *changes.tolist(), columns.shape[1]])


@dataclass(frozen=True, kw_only=True)
class Patches(Strided):
    """Patches of an input that the kernel of a convolution goes over."""

    input: Tensor
    """(samples, groups, channels, *sizes)"""
    geometry: Geometry

    def correlations(self, most_bytes: int) -> Correlations | None:
        _, groups, channels, *sizes = self.input.shape
        entries = prod(self.geometry.kernel)
        rows = self.samples * self.positions
        products = groups * prod(sizes[:-1]) * channels**2
        if (
            _CALLS * rows < entries * channels  # the rows are the smaller side, and are kept
            or channels < _FEWEST_CHANNELS
            or products * self.itemsize > most_bytes
        ):
            return None
        lags = lags_of(self.geometry)
        if _WORTH * sum(map(_positions, lags)) > self.positions * entries**2:
            return None
        try:
            return _correlated(self.input, lags, self.geometry, rows)
        except (RuntimeError, MemoryError) as e:
            if ran_out(e):
                return None  # the rows themselves can be made in smaller parts
            raise


def _positions(lag: Lag) -> int:
    return sum(run.shape[1] * (stop - start) for start, stop, run in lag.runs)


def _correlated(x: Tensor, lags: tuple[Lag, ...], geometry: Geometry, count: int) -> Correlations:
    n, groups, channels, *sizes = x.shape
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    # (rows, groups, channels, last dimension, samples): a run of positions and all samples lie side by side.
    laid = x.flatten(3, -2) if len(sizes) > 1 else x[:, :, :, None]
    laid = laid.permute(3, 1, 2, 4, 0).contiguous()
    height = laid.shape[0]
    most = max(1, _MOST_SUMMED // n)
    blocks: dict[tuple[int, int], Tensor] = {}
    for lag in lags:
        left, right = laid[: height - lag.rows].flatten(0, 1), laid[lag.rows :].flatten(0, 1)
        total = x.new_zeros(len(lag.pairs), groups * channels**2, dtype=torch.float64)
        for start, stop, rows in lag.runs:
            weights = rows.to(x)
            for a in range(start, stop, most):
                b = min(a + most, stop)
                there = right[:, :, a + lag.shift : b + lag.shift].flatten(2)
                found = left[:, :, a:b].flatten(2) @ there.mT
                total += weights @ found.view(weights.shape[1], -1)
        blocks |= zip(lag.pairs, total.view(-1, groups, channels, channels), strict=True)
    return Correlations(blocks, _sums(laid, geometry), count)


def _sums(laid: Tensor, geometry: Geometry) -> Tensor:
    """What each entry of the kernel sees in all, float64 (groups, channels, entries)."""
    *others, last = [geometry.seen(dim).to(laid.device, torch.float64) for dim in range(len(geometry.sizes))]
    total = laid.sum(dim=-1, dtype=torch.float64) @ last.T  # (rows, groups, channels, last entries)
    rows = torch.ones(1, 1, dtype=torch.float64, device=laid.device)
    for seen in others:
        rows = torch.kron(rows, seen)
    return torch.einsum("er,rgcl->gcel", rows, total).flatten(2)


def moment_of(found: Correlations, layer: Layer, use: Use) -> Tensor:
    """`rows.T @ rows`, float64 (groups, columns, columns)."""
    groups, channels, entries = found.sums.shape
    moment = found.sums.new_zeros(groups, layer.columns, layer.columns)
    inner = (
        moment[:, : layer.inputs, : layer.inputs].unflatten(2, (channels, entries)).unflatten(1, (channels, entries))
    )
    for (a, b), block in found.blocks.items():
        inner[:, :, b, :, a] = block.mT
        inner[:, :, a, :, b] = block
    if use.bias is not None:
        one = layer.inputs + layer.biases.index(use.bias)
        moment[:, one, : layer.inputs] = moment[:, : layer.inputs, one] = found.sums.flatten(1)
        moment[:, one, one] = found.count
    return moment
