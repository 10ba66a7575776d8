"""Second moments of a network's rows, class by class: all that either step rule needs to know of the data.

A moment is `rows.T @ rows`. Moments add, so classes, batches, machines and repeated calls of one module all
reduce by a sum. A few rows at a time are multiplied in their own precision, and the products are summed in float64.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor

from unsc import peers
from unsc.eigen import holding, holding_of_rows
from unsc.errors import InvalidData, listing
from unsc.gram import gram, spare_for
from unsc.layers import Layer

_AT_ONCE = 1024
"""Rows that are multiplied at once. A sum of so many products in float32 turns the last directions of a subspace, those
with the smallest eigenvalues in it, by some 1e-5; one of all rows of a class, by some 1e-3."""
_EXACT = 513
"""Columns up to which rows that were kept are multiplied in float64: those of a linear layer with 512 inputs, which has
a row for each sample. Which rows meet in one product depends on the number of processes, and its rounding in float32
is up to 1 % of a small damping. Wider layers have far more rows, or need their leading directions only."""
_SMALL = 128
"""Columns or rows of which all eigenvectors are found as fast as some."""
_MORE, _ITERATIONS = 32, 2
"""Directions that a search for leading eigenvectors takes beyond those wanted, and how often it is repeated."""


class Moment:
    """`rows.T @ rows` of one layer, (groups, columns, columns), kept on the smaller side.

    While there are fewer rows than columns the rows themselves are kept, as they are the thinner factor of
    the moment and their Gram matrix has the same spectrum. Later ones are kept until they are worth a product.
    """

    def __init__(self, groups: int, columns: int) -> None:
        self.groups, self.columns = groups, columns
        self.count = 0
        """Rows seen so far, in each group."""
        self._rows: list[Tensor] = []
        self._sum: Tensor | None = None

    @classmethod
    def from_dense(cls, moment: Tensor, count: int) -> Moment:
        """Of `count` rows whose moment (groups, columns, columns) is at hand."""
        made = cls(moment.shape[0], moment.shape[1])
        made.count, made._sum = count, moment.double()
        return made

    def update(self, rows: Tensor) -> Moment:
        """Add rows (groups, n, columns). If memory runs out, nothing is added."""
        # Rows are kept as long as they are smaller than their product, which takes longer to add up than to make.
        most = self.columns if self._sum is None else min(self.columns, _AT_ONCE)
        if rows.shape[1] >= most:
            self._collapse()
            self._multiply(rows)
        else:
            self._rows.append(rows.clone())
            if sum(kept.shape[1] for kept in self._rows) >= most:
                self._collapse_or_drop_last()
        self.count += rows.shape[1]
        return self

    def _collapse(self) -> None:
        """Turn rows that were kept into a part of the sum, no more at a time than are multiplied at once."""
        while self._rows:
            ends = accumulate(kept.shape[1] for kept in self._rows)
            taken = max(1, sum(end <= _AT_ONCE for end in ends))
            rows = torch.cat(self._rows[:taken], dim=1) if taken > 1 else self._rows[0]
            self._multiply(rows.double() if self.columns <= _EXACT else rows)
            del self._rows[:taken]

    def _collapse_or_drop_last(self) -> None:
        try:
            self._collapse()
        except (RuntimeError, MemoryError):
            self._rows.pop()  # what failed was added last, or before it
            raise

    def _multiply(self, rows: Tensor) -> None:
        """Add the moment of rows (groups, n, columns) to the sum, all of it or nothing."""
        self._sum = _summed_products(rows, self._sum)

    def include(self, moment: Tensor, count: int) -> None:
        """Add `count` rows whose moment (groups, columns, columns) is at hand, in float64."""
        self._collapse()
        self._add(moment)
        self.count += count

    def _whole(self) -> Tensor | None:
        """The sum of all rows' products; None while the rows themselves are the smaller side."""
        if self._sum is not None:
            self._collapse()
        return self._sum

    def _add(self, moment: Tensor) -> None:
        self._sum = moment.clone() if self._sum is None else self._sum.add_(moment)

    def __add__(self, other: Moment) -> Moment:
        total = Moment(self.groups, self.columns)
        for part in (self, other):
            whole = part._whole()
            if whole is None:
                for rows in part._rows:
                    total.update(rows)
            else:
                total.include(whole, part.count)
        return total

    def total_at(self, owner: int) -> Moment:
        """The sum of the parts that the ranks have, on the rank `owner`; on the others it is empty."""
        if peers.count() == 1:
            return self
        whole = Moment(self.groups, self.columns)
        states = peers.gathered((self.count, self._sum is None))
        rows = sum(count for count, _ in states)
        if all(kept for _, kept in states) and rows < self.columns:
            parts = peers.gathered(self._rows)  # few rows, since they are the thinner factor
            for part in (part for of_rank in parts for part in of_rank if peers.rank() == owner):
                whole.update(part)
            return whole
        summed = peers.total_at(owner, self.dense())
        return whole if summed is None else Moment.from_dense(summed, rows)

    def total(self) -> Moment:
        """The sum of the parts that the ranks have, on all of them."""
        whole = self.total_at(0)
        return peers.worked_out({0: 0}, lambda _: whole)[0]

    def factor(self) -> Tensor | None:
        """The rows (groups, count, columns) in float64 where they are the smaller side, else None."""
        if self._sum is not None or not self._rows:
            return None
        return torch.cat(self._rows, dim=1).double()

    def dense(self) -> Tensor:
        """The moment (groups, columns, columns) in float64, exactly symmetric."""
        if (whole := self._whole()) is not None:
            return (whole + whole.mT) / 2
        factor = self.factor()
        if factor is None:
            return torch.zeros(self.groups, self.columns, self.columns, dtype=torch.float64)
        return factor.mT @ factor

    def trace(self) -> Tensor:
        """The rows' total energy in each group, float64 (groups,)."""
        factor = self.factor()
        if factor is not None:
            return factor.square().sum(dim=(1, 2))
        return self.dense().diagonal(dim1=1, dim2=2).sum(dim=1)

    def quadratic(self, matrix: Tensor) -> Tensor:
        """`tr(D M D.T)` in each group, float64 (groups,), for D (groups, outputs, columns)."""
        matrix = matrix.double()
        factor = self.factor()
        if factor is not None:
            return (factor @ matrix.mT).square().sum(dim=(1, 2))
        return ((matrix @ self.dense()) * matrix).sum(dim=(1, 2))

    def within(self, rows: Tensor) -> Tensor:
        """`L M L.T`, float64 (groups, l, l), for L (groups, l, columns)."""
        rows = rows.double()
        factor = self.factor()
        if factor is not None:
            seen = rows @ factor.mT
            return seen @ seen.mT
        return rows @ (self.dense() @ rows.mT)

    def leading(self, count: int) -> tuple[Tensor, Tensor]:
        """The largest `count` eigenvalues, as `spectrum` gives them: to float32's precision, in a fraction of its time.

        The sum of the others is at most what the trace leaves.
        """
        more = min(count + _MORE, self.columns)
        start = torch.randn(self.groups, self.columns, more, generator=torch.Generator().manual_seed(0))
        if self._sum is not None:
            dense = self.dense().float()
            return _leading_of(lambda basis: dense @ basis, start.to(dense), count)
        rows = torch.cat(self._rows, dim=1).float()
        return _leading_of(lambda basis: rows.mT @ (rows @ basis), start.to(rows), count)

    def spectrum(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues (groups, m), descending and at least 0, and eigenvectors (groups, columns, m), in float64.

        m is the smaller of rows and columns. An eigenvalue that is nothing but rounding is set to 0; where the
        rows were kept, its eigenvector is a zero vector.
        """
        factor = self.factor()
        return self._decomposed(factor, self.dense() if factor is None else factor @ factor.mT)

    def holding(self, energy: float) -> tuple[Tensor, Tensor, Tensor]:
        """Of the spectrum at least what holds the share `energy`, and the sum of all eigenvalues (groups,)."""
        factor = self.factor()
        matrix = self.dense() if factor is None else factor
        find = holding if factor is None else holding_of_rows
        short = self.groups == 1 and energy < 1 and matrix.shape[1] >= _SMALL
        if not short or (found := find(matrix[0], energy)) is None:
            values, vectors = self._decomposed(factor, matrix if factor is None else factor @ factor.mT)
            return values, vectors, values.sum(dim=1)
        values, vectors = found[0][None], found[1][None]
        total = matrix.diagonal(dim1=1, dim2=2) if factor is None else factor.square().flatten(1)
        return values, _turned_back(factor, values, vectors), total.sum(dim=1)

    def _decomposed(self, factor: Tensor | None, matrix: Tensor) -> tuple[Tensor, Tensor]:
        """By the moment, or by the products of its rows with each other if they are fewer than columns."""
        values, vectors = torch.linalg.eigh(matrix)
        values, vectors = values.flip(-1), vectors.flip(-1)
        values = values * (values > 1e-12 * values[:, :1])
        return values, _turned_back(factor, values, vectors)


def _summed_products(rows: Tensor, into: Tensor | None = None) -> Tensor:
    """`rows.T @ rows` of rows (groups, n, columns), in float64, added `into` what is there: all of it or nothing."""
    rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
    product = rows.new_empty(rows.shape[0], rows.shape[2], rows.shape[2])
    total = torch.zeros_like(product, dtype=torch.float64) if into is None else into
    spare = spare_for(rows)
    for part in rows.split(_AT_ONCE, dim=1):  # from here on no memory is asked for
        total += gram(part, product, spare)
    return total


def _turned_back(factor: Tensor | None, values: Tensor, vectors: Tensor) -> Tensor:
    """Eigenvectors of the moment, from those of the rows' products with each other where there is a `factor`."""
    if factor is None:
        return vectors
    return factor.mT @ vectors * torch.where(values > 0, values.clamp(min=1e-300).rsqrt(), 0.0)[:, None, :]


def _leading_of(apply: Callable[[Tensor], Tensor], start: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Leading eigenpairs by subspace iteration from `start` (groups, columns, more), and Rayleigh and Ritz's method."""
    basis = torch.linalg.qr(apply(start))[0]
    for _ in range(_ITERATIONS):
        basis = torch.linalg.qr(apply(basis))[0]
    inside = basis.mT @ apply(basis)
    values, turns = torch.linalg.eigh(((inside + inside.mT) / 2).double())
    vectors = basis @ turns.to(basis.dtype)
    return values.flip(-1)[:, :count].clamp(min=0), vectors.flip(-1)[..., :count].double()


def of_nothing(layers: Iterable[Layer]) -> dict[str, Moment]:
    """Moments of no rows yet, by layer name."""
    return {x.name: Moment(x.groups, x.columns) for x in layers}


@dataclass(frozen=True)
class Moments:
    """Each class's moment in each layer."""

    layers: tuple[Layer, ...]
    frozen: dict[str, str]
    """Parameters that have no layer here, and why."""
    by_class: dict[int, dict[str, Moment]]
    samples: dict[int, int]
    """How many samples of each class were seen."""
    num_classes: int

    def pooled(self, classes: Iterable[int]) -> dict[str, Moment]:
        """The sum over `classes`, by layer."""
        chosen = list(classes)
        missing = [k for k in chosen if k not in self.by_class]
        if missing:
            there = listing(self.by_class)
            raise InvalidData(f"there are no moments of the classes {listing(missing)}; there are {there}")
        total = of_nothing(self.layers)
        for k in chosen:
            total = {name: moment + self.by_class[k][name] for name, moment in total.items()}
        return total

    def total(self) -> Moments:
        """The sum of the parts that the ranks have, on all of them."""
        if peers.count() == 1:
            return self
        counts: Counter[int] = Counter()
        for own in peers.gathered(self.samples):
            counts.update(own)
        joined = {
            k: {n: m.total() for n, m in self.by_class.get(k, of_nothing(self.layers)).items()} for k in sorted(counts)
        }
        return replace(self, by_class=joined, samples=dict(sorted(counts.items())))

    def __add__(self, other: Moments) -> Moments:
        """Join the moments of two parts of the data, collected with the same model."""
        if self.layers != other.layers:
            raise InvalidData("these moments are of different layers; collect both with the same model")
        classes = sorted({*self.by_class, *other.by_class})
        parts = {k: [m.by_class[k] for m in (self, other) if k in m.by_class] for k in classes}
        joined = {k: p[0] if len(p) == 1 else {n: p[0][n] + p[1][n] for n in p[0]} for k, p in parts.items()}
        samples = {k: self.samples.get(k, 0) + other.samples.get(k, 0) for k in classes}
        return Moments(self.layers, self.frozen, joined, samples, self.num_classes)
