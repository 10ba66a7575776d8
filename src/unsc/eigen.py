"""The leading eigenvectors of a symmetric matrix that hold a share of its trace, and no others.

A block Krylov space is widened until it holds them: it takes some three times as many products as there are vectors to
find. How far off they can be is known from what is left over, so that the answer is as good as a full decomposition's.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

_BLOCK, _WIDE_BLOCK, _WIDE = 8, 32, 1024
"""Vectors that are multiplied at once; more where the matrix is so large that reading it takes longer than that."""
_TOLERANCE = 1e-6
"""The sine of the angle between what is found and what was to be found, as one more block would show it."""
_MOST = 0.5
"""Of a matrix's dimensions, how many the space may take: beyond that a full decomposition takes less time."""
_SOONEST = {_BLOCK: 2.0, _WIDE_BLOCK: 2.5}
"""How many times wider than there are vectors to find a space is, by its block, before it is near enough."""
_LATER, _EACH = 1.15, math.exp(-2)
"""How many times wider a space is looked at again if nothing is near, as to look takes as long as to widen it by a few
blocks; and what else a block multiplies the angle by, as far as one knows beforehand."""
_NOTHING = 1e-10
"""Share of a product that may be rounding."""
_FEW_ROWS = 512
"""Rows whose products with each other take less time than those of a whole space with the rows."""


def holding(matrix: Tensor, energy: float) -> tuple[Tensor, Tensor] | None:
    """The fewest leading eigenvalues (r,), and eigenvectors (n, r), that add up to the share `energy` of the trace.

    `matrix` (n, n) is positive semidefinite, in float64. None if there is no short way, as there is none to many
    vectors.
    """
    return _found(lambda some: some @ matrix, matrix.new_empty(0, len(matrix)), energy * float(matrix.trace()))


def holding_of_rows(rows: Tensor, energy: float) -> tuple[Tensor, Tensor] | None:
    """The same of the products of rows (n, columns) with each other, `rows @ rows.T`.

    Of many rows they are not made: two products of each block by the rows take less time.
    """
    if len(rows) <= _FEW_ROWS:
        return holding(rows @ rows.mT, energy)
    return _found(lambda some: some @ rows @ rows.mT, rows.new_empty(0, len(rows)), energy * float(rows.square().sum()))


def _found(apply: Callable[[Tensor], Tensor], like: Tensor, wanted: float) -> tuple[Tensor, Tensor] | None:
    """Eigenvectors that add up to `wanted`, of a matrix that `apply` multiplies vectors by, (k, n) like `like`."""
    size = like.shape[1]
    block = _BLOCK if size < _WIDE else _WIDE_BLOCK
    most = int(_MOST * size)
    # Vectors are rows here: a few rows times a matrix take half as long as a matrix times a few columns.
    space, inside = like.new_empty(most + block, size), like.new_zeros(most + block, most + block)
    start = torch.randn(size, block, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    space[:block] = torch.linalg.qr(start.to(like))[0].mT
    next_look = 0.0
    for k in range(block, most + 1, block):
        known, last = space[:k], slice(k - block, k)
        left = apply(space[last])
        inside[last, :k] = left @ known.mT
        inside[:k, last] = inside[last, :k].mT
        further, over = torch.linalg.qr((left - inside[last, :k] @ known).mT)
        # Rounding leaves a part of the space in it, much of it where there is little else, and all where nothing is.
        for _ in range(1 if over.diagonal().abs().min() > _NOTHING * left.norm() else 2):
            further = further.mT.contiguous()
            further -= (further @ known.mT) @ known
            further = torch.linalg.qr(further.mT)[0]
        space[k : k + block] = further.mT
        if k >= next_look and float(inside[:k, :k].trace()) >= wanted:
            values, turns = torch.linalg.eigh(inside[:k, :k])
            values, turns = values.flip(0), turns.flip(1)
            rank = int((values.cumsum(dim=0) < wanted).sum()) + 1
            angle = _angle(values, over @ turns[-block:], inside[last, last], rank)
            if angle <= _TOLERANCE:
                return values[:rank], (turns[:, :rank].mT @ known).mT
            wider = block * math.log(_TOLERANCE / angle, _EACH) if angle < 1 else (_LATER - 1) * k
            next_look = max(k + wider, _SOONEST[block] * rank)
            if next_look > most:
                return None
    return None


def _angle(values: Tensor, out: Tensor, beyond: Tensor, rank: int) -> float:
    """About the sine by which the leading `rank` vectors will turn once the next block is in the space, or above.

    `values` (k,) descend, `out` (block, k) is how each of their vectors leads into that block, and `beyond`
    (block, block) is what the matrix does within the last block, which is about what it does within the next. A vector
    turns by `out` over the difference of its value from those beyond. Through the next block it also
    turns towards the vectors that are left out, whose values are nearer: that is the product of two small numbers over
    a difference. `out` itself over the smallest difference would be hundreds of times more than what they turn by.
    """
    if rank >= len(values):
        return math.inf
    there, turns = torch.linalg.eigh(beyond)
    if there[-1] >= values[rank - 1]:
        return math.inf
    out = turns.mT @ out
    beside = out[:, :rank] / (values[:rank] - there[:, None])
    gaps = (values[:rank] - values[rank:, None]).clamp(min=torch.finfo(values.dtype).tiny)
    return float(torch.cat([beside, out[:, rank:].mT @ beside / gaps]).norm())
