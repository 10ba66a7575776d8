"""The leading eigenvectors of a symmetric matrix that hold a share of its trace, and no others.

A block Krylov space is widened until it holds them: it takes some three times as many products as there are vectors to
find. How far off they can be is known from what is left over, so that the answer is as good as a full decomposition's.
"""

from __future__ import annotations

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


def holding(matrix: Tensor, energy: float) -> tuple[Tensor, Tensor] | None:
    """The fewest leading eigenvalues (r,), and eigenvectors (n, r), that add up to the share `energy` of the trace.

    `matrix` (n, n) is positive semidefinite, in float64. None if there is no short way, as there is none to many
    vectors.
    """
    size, wanted = len(matrix), energy * float(matrix.trace())
    block = _BLOCK if size < _WIDE else _WIDE_BLOCK
    most = int(_MOST * size)
    # Vectors are rows here: a few rows times a matrix take half as long as a matrix times a few columns.
    space, inside = matrix.new_empty(most + block, size), matrix.new_zeros(most + block, most + block)
    start = torch.randn(size, block, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    space[:block] = torch.linalg.qr(start.to(matrix))[0].mT
    looked = 0
    for k in range(block, most + 1, block):
        known, last = space[:k], slice(k - block, k)
        left = space[last] @ matrix
        inside[last, :k] = left @ known.mT
        inside[:k, last] = inside[last, :k].mT
        further, over = torch.linalg.qr((left - inside[last, :k] @ known).mT)
        # Rounding leaves a part of the space in it, much of it where there is little else.
        further -= known.mT @ (known @ further)
        space[k : k + block] = torch.linalg.qr(further)[0].mT
        if k >= _LATER * looked and float(inside[:k, :k].trace()) >= wanted:
            looked = k
            found = _settled(inside[:k, :k], over, wanted)
            if found is not None:
                return found[0], (found[1].mT @ known).mT
    return None


def _settled(inside: Tensor, over: Tensor, wanted: float) -> tuple[Tensor, Tensor] | None:
    """The values (r,), and which combinations (k, r) of the space are the vectors, if they are near enough.

    `inside` (k, k) is the matrix within the space and `over` (block, block) what leads from its last vectors out of it.
    """
    values, turns = torch.linalg.eigh(inside)
    values, turns = values.flip(0), turns.flip(1)
    r = int((values.cumsum(dim=0) < wanted).sum()) + 1
    if r >= len(values):
        return None
    out = torch.linalg.matrix_norm(over @ turns[-len(over) :, :r], ord=2)
    return (values[:r], turns[:, :r]) if out <= _TOLERANCE * (values[r - 1] - values[r]) else None
