"""`rows.T @ rows` in two thirds of the time: what is right of the diagonal is what is below it, and is made once."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_LEAST = 256
"""Columns of which all products take no longer than half of them in parts."""


def gram(rows: Tensor, out: Tensor | None = None, spare: Tensor | None = None) -> Tensor:
    """`rows.mT @ rows`, (..., columns, columns), of rows (..., n, columns).

    With memory to write it to, `out`, and for parts of it, `spare_for(rows)`, it asks for none.
    """
    size = rows.shape[-1]
    made = rows.new_empty(*rows.shape[:-2], size, size) if out is None else out
    if size < _LEAST:
        return torch.matmul(rows.mT, rows, out=made)
    _fill(rows, made, spare_for(rows) if spare is None else spare)
    return made


def spare_for(rows: Tensor) -> Tensor:
    """As much memory as the largest part takes that `gram` makes of rows like these."""
    size = rows.shape[-1]
    return rows.new_empty(math.prod(rows.shape[:-2]) * (size - size // 2) ** 2 if size >= _LEAST else 0)


def _fill(rows: Tensor, into: Tensor, spare: Tensor) -> None:
    size = rows.shape[-1]
    if size < _LEAST:
        into.copy_(_product(rows, rows, spare))
        return
    half = size // 2
    left, right = rows[..., :half], rows[..., half:]
    beside = _product(left, right, spare)
    into[..., :half, half:] = beside
    into[..., half:, :half] = beside.mT
    _fill(left, into[..., :half, :half], spare)
    _fill(right, into[..., half:, half:], spare)


def _product(left: Tensor, right: Tensor, spare: Tensor) -> Tensor:
    shape = (*left.shape[:-2], left.shape[-1], right.shape[-1])
    return torch.matmul(left.mT, right, out=spare[: math.prod(shape)].view(shape))
