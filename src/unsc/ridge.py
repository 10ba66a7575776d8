"""Ridge regression, for any ridge at the cost of one eigendecomposition, and what it says of rows that it left out."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Ridge:
    """The regression of `values` (n, k) on `rows` (n, d); ridges are in units of the rows' mean square, by column.

    With U the eigenvectors of `rows @ rows.T` and s the eigenvalues, fitted values are `U s / (s + ridge) U.T values`.
    """

    rows: Tensor
    """Less their `centre`."""
    values: Tensor
    """Less their `level`."""
    centre: Tensor
    """(d,); zero without a constant."""
    level: Tensor
    """(k,)"""
    vectors: Tensor
    """U, (n, m)."""
    spectrum: Tensor
    """s, (m,)."""
    constant: bool

    @classmethod
    def of(cls, rows: Tensor, values: Tensor, *, constant: bool) -> Ridge:
        """With a `constant` that is not shrunk, or without one."""
        centre, level = (x.mean(dim=0) if constant else torch.zeros_like(x[0]) for x in (rows, values))
        rows, values = rows - centre, values - level
        wide = rows.shape[0] < rows.shape[1]
        spectrum, vectors = torch.linalg.eigh(rows @ rows.T if wide else rows.T @ rows)
        real = spectrum > 1e-12 * spectrum.max()
        spectrum, vectors = spectrum[real], vectors[:, real]
        vectors = vectors if wide else rows @ vectors / spectrum.sqrt()
        return cls(rows, values, centre, level, vectors, spectrum, constant)

    def left_out(self, ridge: float) -> Tensor:
        """What each row is given by the regression on all others, (n, k): exactly, for a ridge that stays the same."""
        kept = self.spectrum / (self.spectrum + self._absolute(ridge))
        residuals = self.values - (self.vectors * kept) @ (self.vectors.T @ self.values)
        own = (self.vectors.square() * kept).sum(dim=1) + (1 / len(self.rows) if self.constant else 0.0)
        return self.level + self.values - residuals / (1 - own).clamp(min=1e-9)[:, None]

    def solution(self, ridge: float) -> tuple[Tensor, Tensor]:
        """Coefficients (k, d) and constants (k,), which are 0 without one."""
        inverse = self.vectors / (self.spectrum + self._absolute(ridge))
        weight = (self.rows.T @ (inverse @ (self.vectors.T @ self.values))).T
        return weight, self.level - weight @ self.centre

    def _absolute(self, ridge: float) -> float:
        return ridge * self.rows.square().sum().item() / self.rows.shape[1]
