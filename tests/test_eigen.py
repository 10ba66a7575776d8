"""Leading eigenvectors by a Krylov space are those of a full decomposition, or there is no answer."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from unsc.eigen import holding, holding_of_rows

REPEATABLE = settings(max_examples=40, deadline=None, derandomize=True)


def matrix_with(values: Tensor, seed: int = 0) -> tuple[Tensor, Tensor]:
    """A matrix with these eigenvalues, and its eigenvectors in their order."""
    g = torch.Generator().manual_seed(seed)
    turns = torch.linalg.qr(torch.randn(len(values), len(values), generator=g, dtype=torch.float64))[0]
    return turns * values @ turns.T, turns


def sine(one: Tensor, other: Tensor) -> float:
    return torch.linalg.matrix_norm(other - one @ (one.T @ other), ord=2).item()


@REPEATABLE
@given(st.integers(0, 1000), st.integers(120, 240), st.floats(1.0, 3.0), st.floats(0.5, 0.98))
def test_it_is_the_leading_part_of_a_full_decomposition(seed: int, size: int, decay: float, energy: float) -> None:
    """Same number of vectors, same space within 1e-5, for spectra that fall off by some power."""
    values = torch.arange(1, size + 1, dtype=torch.float64) ** -decay
    matrix, vectors = matrix_with(values, seed)
    found = holding(matrix, energy)
    rank = int((values.cumsum(0) < energy * values.sum()).sum()) + 1
    if found is None:
        return  # it may be left to a full decomposition; the next test says when it must not be
    assert found[1].shape == (size, rank)
    torch.testing.assert_close(found[0], values[:rank], rtol=1e-8, atol=0)
    torch.testing.assert_close(found[1].T @ found[1], torch.eye(rank, dtype=torch.float64), rtol=0, atol=1e-9)
    assert sine(vectors[:, :rank], found[1]) < 1e-5


def test_few_vectors_of_a_wide_matrix_are_found() -> None:
    """The case it is made for: 40 of 1,100 dimensions hold almost everything, and one holds most of that."""
    values = torch.cat([torch.tensor([1e4]), 2.0 ** -torch.linspace(0, 6, 40), torch.full((1059,), 1e-6)]).double()
    matrix, vectors = matrix_with(values)
    found = holding(matrix, 0.9999)
    assert found is not None
    rank = found[1].shape[1]
    assert rank == int((values.cumsum(0) < 0.9999 * values.sum()).sum()) + 1
    assert sine(vectors[:, :rank], found[1]) < 1e-5


@pytest.mark.parametrize(("rank", "apart"), [(20, 0.01), (60, 0.01), (20, 1e-9), (40, 1e-9)])
def test_values_that_lie_close_together(rank: int, apart: float) -> None:
    """The last that is wanted differs little from the next: found in half of the dimensions, within 1e-5."""
    values = torch.arange(1, 401, dtype=torch.float64) ** -1.2
    values[rank] = values[rank - 1] * (1 - apart)
    matrix, vectors = matrix_with(values)
    found = holding(matrix, float((values[:rank].sum() - values[rank - 1] / 2) / values.sum()))
    assert found is not None and found[1].shape == (400, rank)
    assert sine(vectors[:, :rank], found[1]) < 1e-5


@pytest.mark.parametrize("few", [True, False])
def test_of_rows_it_is_what_it_is_of_their_products(few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer rows than columns, by their singular vectors, whether their products are made or not."""
    monkeypatch.setattr("unsc.eigen._FEW_ROWS", 150 if few else 149)
    torch.manual_seed(0)
    rows = torch.randn(150, 150).double() * torch.arange(1, 151) ** -2.0 @ torch.randn(150, 400).double()
    found = holding_of_rows(rows, 0.97)
    left, sizes, _ = torch.linalg.svd(rows, full_matrices=False)
    assert found is not None
    rank = int((sizes.square().cumsum(0) < 0.97 * sizes.square().sum()).sum()) + 1
    assert found[1].shape == (150, rank)
    torch.testing.assert_close(found[0], sizes[:rank].square(), rtol=1e-8, atol=0)
    assert sine(left[:, :rank], found[1]) < 1e-5


@pytest.mark.parametrize("rank", [1, 3, 12])
def test_a_matrix_of_low_rank(rank: int) -> None:
    """The space is larger than what the matrix reaches; what is found still has the leading vectors alone."""
    values = torch.zeros(90, dtype=torch.float64)
    values[:rank] = torch.arange(rank, 0, -1)
    matrix, vectors = matrix_with(values)
    found = holding(matrix, 0.97)
    assert found is not None and found[1].shape[1] <= rank
    assert sine(vectors[:, : found[1].shape[1]], found[1]) < 1e-5


def test_any_of_equal_eigenvalues_will_do() -> None:
    """Of ten equal ones, three hold a quarter of all: three orthonormal vectors of their space."""
    values = torch.cat([torch.full((10,), 1.0), torch.full((90,), 1e-9)]).double()
    matrix, vectors = matrix_with(values)
    found = holding(matrix, 0.25)
    assert found is not None and found[1].shape == (100, 3)
    torch.testing.assert_close(found[1].T @ found[1], torch.eye(3, dtype=torch.float64), rtol=0, atol=1e-9)
    assert sine(vectors[:, :10], found[1]) < 1e-5


def test_many_vectors_are_left_to_a_full_decomposition() -> None:
    """A flat spectrum: 97 % of it are 97 % of its dimensions."""
    assert holding(matrix_with(torch.linspace(1, 1.1, 100).double())[0], 0.97) is None


def test_a_space_that_nothing_leads_out_of() -> None:
    """With three different eigenvalues it is full after three blocks: what comes then is rounding, and stays apart."""
    for size, energy in product([128, 200, 512, 1100], [0.5, 0.9, 0.97, 0.99]):
        values = torch.tensor([1.0] * 12 + [0.2] * 18 + [1e-6] * (size - 30), dtype=torch.float64)
        found = holding(torch.diag(values), energy)
        assert found is not None
        own, vectors = found
        torch.testing.assert_close(vectors.T @ vectors, torch.eye(len(own), dtype=torch.float64), rtol=0, atol=1e-12)
        torch.testing.assert_close(values[:, None] * vectors, own * vectors, rtol=0, atol=1e-12)
