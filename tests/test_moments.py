"""Moments are `rows.T @ rows` however they are stored, added or collected."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from unsc.moments import Moment

REPEATABLE = settings(max_examples=60, deadline=None, derandomize=True)


@st.composite
def row_blocks(draw: st.DrawFn) -> list[Tensor]:
    """Blocks of rows (groups, n, columns) of one layer, float64, few or many, some of them of low rank."""
    groups, columns = draw(st.integers(1, 3)), draw(st.integers(1, 8))
    torch.manual_seed(draw(st.integers(0, 1000)))
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=4))
    rank = draw(st.integers(1, columns))
    basis = torch.randn(groups, rank, columns, dtype=torch.float64)
    return [torch.randn(groups, n, rank, dtype=torch.float64) @ basis for n in sizes]


def moment_of(*blocks: Tensor) -> Moment:
    moment = Moment(blocks[0].shape[0], blocks[0].shape[2])
    for block in blocks:
        moment.update(block)
    return moment


def explicit(*blocks: Tensor) -> Tensor:
    rows = torch.cat(blocks, dim=1)
    return torch.einsum("gni,gnj->gij", rows, rows)


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)


@REPEATABLE
@given(row_blocks())
def test_a_moment_is_rows_transposed_times_rows(blocks: list[Tensor]) -> None:
    """For any number of rows, in any number of blocks."""
    moment = moment_of(*blocks)
    close(moment.dense(), explicit(*blocks))
    assert torch.equal(moment.dense(), moment.dense().mT)
    assert moment.count == sum(block.shape[1] for block in blocks)


@pytest.mark.parametrize(("n", "thin"), [(3, True), (4, True), (5, False), (9, False)])
def test_the_smaller_side_is_kept(n: int, thin: bool) -> None:
    """With fewer rows than columns the factor is the rows themselves; from then on there is none."""
    rows = torch.randn(2, n, 5, generator=torch.Generator().manual_seed(0))
    factor = moment_of(rows[:, :2], rows[:, 2:]).factor()
    if thin:
        assert factor is not None
        assert torch.equal(factor, rows.double())
    else:
        assert factor is None
    close(moment_of(rows.double()).dense(), explicit(rows.double()))


def test_kept_rows_are_a_copy() -> None:
    """Rows that are overwritten after the update do not change the moment."""
    rows = torch.ones(1, 2, 5)
    moment = moment_of(rows)
    rows.zero_()
    assert torch.equal(moment.dense(), torch.full((1, 5, 5), 2.0, dtype=torch.float64))


def test_float32_rows_are_summed_in_float64() -> None:
    """Many small contributions are not lost beside a large one, as they would be in a float32 sum."""
    moment = Moment(1, 1).update(torch.full((1, 1, 1), 4096.0))
    for _ in range(64):
        moment.update(torch.full((1, 1, 1), 0.5))
    assert moment.dense().item() == 4096.0**2 + 64 * 0.25


def test_float32_rows_give_the_same_moment_whichever_were_kept_together() -> None:
    """Processes get other batches of a few rows, and what they add up to tells small directions from each other."""
    batches = torch.randn(12, 1, 5, 16, generator=torch.Generator().manual_seed(0))
    one, halves = moment_of(*batches), moment_of(*batches[::2]) + moment_of(*batches[1::2])
    torch.testing.assert_close(halves.dense(), one.dense(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("before", [2, 3, 9])
def test_if_memory_runs_out_nothing_is_added(before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether rows before were kept or multiplied; the same rows can be added later."""
    rows = torch.randn(1, 16, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    moment = moment_of(rows[:, : before - 1], rows[:, before - 1 : before])

    def ran_out(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr("unsc.moments._summed_products", ran_out)
        for n in (4, 6):  # few more rows, and many
            with pytest.raises(MemoryError):
                moment.update(rows[:, before : before + n])
    assert moment.count == before
    close(moment.update(rows[:, before:]).dense(), explicit(rows))


def test_a_moment_without_rows_is_zero() -> None:
    """And it is the neutral element of addition."""
    empty, rows = Moment(2, 3), torch.randn(2, 7, 3, dtype=torch.float64)
    assert not empty.dense().any()
    assert not empty.trace().any()
    assert not empty.quadratic(torch.ones(2, 4, 3)).any()
    assert not empty.spectrum()[0].any()
    for n in (2, 7):
        close((empty + moment_of(rows[:, :n])).dense(), explicit(rows[:, :n]))
        close((moment_of(rows[:, :n]) + empty).dense(), explicit(rows[:, :n]))


@REPEATABLE
@given(row_blocks(), row_blocks(), st.data())
def test_addition_is_commutative_and_associative(
    first: list[Tensor], second: list[Tensor], data: st.DataObject
) -> None:
    """In every order and bracketing the sum is the moment of all rows, in whichever state the parts are."""
    groups, _, columns = first[0].shape
    second = [torch.randn(groups, block.shape[1], columns, dtype=torch.float64) for block in second]
    blocks = first + second
    owner = [data.draw(st.integers(0, 2)) for _ in blocks]
    empty = torch.zeros(groups, 0, columns, dtype=torch.float64)
    parts = [moment_of(empty, *(b for b, o in zip(blocks, owner, strict=True) if o == i)) for i in range(3)]
    before = [part.dense().clone() for part in parts]
    expected, count = explicit(*blocks), sum(block.shape[1] for block in blocks)
    for a, b, c in permutations(parts):
        for total in ((a + b) + c, a + (b + c)):
            close(total.dense(), expected)
            close(total.trace(), expected.diagonal(dim1=1, dim2=2).sum(dim=1))
            assert total.count == count
            assert count == 0 or (total.factor() is None) == (count >= columns)
    assert all(torch.equal(part.dense(), old) for part, old in zip(parts, before, strict=True))


@pytest.mark.parametrize("sizes", [(1, 1), (1, 9), (9, 1), (9, 9), (3, 3)])
def test_a_sum_is_independent_of_its_parts(sizes: tuple[int, int]) -> None:
    """Rows that are added to a sum go to the sum alone, and rows added to a part to that part alone."""
    torch.manual_seed(0)
    first, second, later = (torch.randn(1, n, 5, dtype=torch.float64) for n in (*sizes, 4))
    a, b = moment_of(first), moment_of(second)
    total = a + b
    total.update(later)
    close(a.dense(), explicit(first))
    close(b.dense(), explicit(second))
    a.update(later)
    close(total.dense(), explicit(first, second, later))
    assert total.count == sum(sizes) + 4


@REPEATABLE
@given(row_blocks())
def test_the_spectrum_rebuilds_the_moment(blocks: list[Tensor]) -> None:
    """Eigenvalues descend from at least 0, and `V diag(values) V.T` is the moment."""
    moment = moment_of(*blocks)
    values, vectors = moment.spectrum()
    close(vectors * values[:, None, :] @ vectors.mT, explicit(*blocks))
    assert (values >= 0).all()
    assert (values.diff(dim=1) <= 0).all()
    if moment.count:
        assert values.shape[1] == min(moment.count, moment.columns)


@REPEATABLE
@given(row_blocks())
def test_eigenvectors_with_energy_are_orthonormal(blocks: list[Tensor]) -> None:
    """On both sides, and vectors that were found from the rows are zero where the eigenvalue is."""
    moment = moment_of(*blocks)
    for values, vectors in zip(*moment.spectrum(), strict=True):
        basis = vectors[:, values > 0]
        torch.testing.assert_close(basis.T @ basis, torch.eye(basis.shape[1], dtype=torch.float64), atol=1e-3, rtol=0)
        if moment.factor() is not None:
            assert not vectors[:, values == 0].any()


@REPEATABLE
@given(row_blocks(), st.integers(1, 4))
def test_trace_and_quadratic_form_match_their_definitions(blocks: list[Tensor], outputs: int) -> None:
    """The trace is the rows' energy, and `tr(D M D.T)` the energy of what D makes of them."""
    moment = moment_of(*blocks)
    rows = torch.cat(blocks, dim=1)
    matrix = torch.randn(rows.shape[0], outputs, rows.shape[2], dtype=torch.float64)
    energies = [(d @ r.T).norm() ** 2 for d, r in zip(matrix, rows, strict=True)]
    close(moment.quadratic(matrix), torch.stack(energies))
    close(moment.trace(), torch.stack([r.norm() ** 2 for r in rows]))


@pytest.mark.parametrize("rows", [60, 400])
def test_leading_eigenpairs_are_those_of_the_whole_spectrum(rows: int) -> None:
    """Whether rows are kept or summed up: values to a thousandth, and vectors that hold as much of the moment."""
    generator = torch.Generator().manual_seed(0)
    found = torch.randn(2, rows, 120, generator=generator) * torch.logspace(0, -3, 120)
    moment = Moment(2, 120).update(found)
    values, vectors = moment.leading(12)
    wanted, _ = moment.spectrum()
    assert vectors.shape == (2, 120, 12)
    torch.testing.assert_close(values, wanted[:, :12], rtol=1e-3, atol=0)
    torch.testing.assert_close(vectors.mT @ vectors, torch.eye(12).double().expand(2, 12, 12), rtol=0, atol=1e-5)
    held = (found.double() @ vectors).square().sum(dim=1)
    torch.testing.assert_close(held, wanted[:, :12], rtol=1e-3, atol=0)
