"""The leading eigenvectors of a symmetric matrix that hold a share of its trace, and no others.

A block Krylov space is widened until it holds them: it takes some three times as many products as there are vectors to
find. How far off they can be is known from what is left over, so that the answer is as good as a full decomposition's.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_BLOCK, _WIDE_BLOCK, _WIDE = 8, 32, 1024
"""Vectors that are multiplied at once; more where the matrix is so large that reading it takes longer than that."""
_TOLERANCE = 1e-5
"""The sine of the angle between what is found and what was to be found, at most."""
_MOST = 0.5
"""Of a matrix's dimensions, how many the space may take: beyond that a full decomposition takes less time."""
_LATER = 1.15
"""How many times wider a space is looked at again: to look takes as long as to widen it by a few blocks."""
_SOONEST = 2.4
"""And how many times wider than there are vectors to find: sooner they have not been near enough."""


def holding(matrix: Tensor, energy: float) -> tuple[Tensor, Tensor] | None:
    """The fewest leading eigenvalues (r,), and eigenvectors (n, r), that add up to the share `energy` of the trace.

    `matrix` (n, n) is positive semidefinite, in float64. None if there is no short way, as there is none to many
    vectors.
    """
    return _found(lambda some: some @ matrix, matrix.new_empty(0, len(matrix)), energy * float(matrix.trace()))


def holding_of_rows(rows: Tensor, energy: float) -> tuple[Tensor, Tensor] | None:
    """The same of the products of rows (n, columns) with each other, `rows @ rows.T`.

    They are not made: with no more columns in the space than half of n, two products by the rows take less time.
    """
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
        # Rounding leaves a part of the space in it, much of it where there is little else.
        further -= known.mT @ (known @ further)
        space[k : k + block] = torch.linalg.qr(further)[0].mT
        if k >= next_look and float(inside[:k, :k].trace()) >= wanted:
            rank, found = _settled(inside[:k, :k], over, wanted)
            if found is not None:
                return found[0], (found[1].mT @ known).mT
            next_look = max(_LATER * k, _SOONEST * rank)
            if next_look > most:
                return None
    return None


def _settled(inside: Tensor, over: Tensor, wanted: float) -> tuple[int, tuple[Tensor, Tensor] | None]:
    """How many vectors there are, as far as one can see; and if they are near enough their values (r,), and which
    combinations (k, r) of the space they are.

    `inside` (k, k) is the matrix within the space and `over` (block, block) what leads from its last vectors out of it.
    """
    values, turns = torch.linalg.eigh(inside)
    values, turns = values.flip(0), turns.flip(1)
    r = int((values.cumsum(dim=0) < wanted).sum()) + 1
    if r >= len(values):
        return r, None
    out = torch.linalg.matrix_norm(over @ turns[-len(over) :, :r], ord=2)
    return r, (values[:r], turns[:, :r]) if out <= _TOLERANCE * (values[r - 1] - values[r]) else None
