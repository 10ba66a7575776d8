"""Ranks, against plain counting."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unsc.ranks import agreement, auc, place_among, value_at

REPEATABLE = settings(max_examples=60, deadline=None, derandomize=True)
VALUES = st.lists(st.integers(-5, 5), min_size=1, max_size=12).map(lambda v: torch.tensor(v, dtype=torch.float32))


@REPEATABLE
@given(VALUES, VALUES)
def test_the_auc_is_the_share_of_pairs(first: torch.Tensor, second: torch.Tensor) -> None:
    """Ties count half; exchanging the two gives the complement."""
    pairs = [(a > b) + 0.5 * (a == b) for a in first.tolist() for b in second.tolist()]
    assert auc(first, second) == pytest.approx(sum(pairs) / len(pairs))
    assert auc(first, second) + auc(second, first) == pytest.approx(1)


@REPEATABLE
@given(VALUES, VALUES)
def test_a_place_is_the_share_below(values: torch.Tensor, pool: torch.Tensor) -> None:
    """Never 0 or 1: half a sample is left at both ends."""
    for value, place in zip(values.tolist(), place_among(values, pool).tolist(), strict=True):
        share = sum((value > b) + 0.5 * (value == b) for b in pool.tolist()) / len(pool)
        assert place == pytest.approx(min(max(share, 0.5 / len(pool)), 1 - 0.5 / len(pool)), abs=1e-6)


@pytest.mark.parametrize("size", [1, 2, 7, 300])
def test_values_are_found_again_at_their_places(size: int) -> None:
    pool = torch.randn(size, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(value_at(place_among(pool, pool), pool), pool)


def test_as_many_others_get_exactly_the_pool() -> None:
    """Whatever the values are, their order alone counts."""
    g = torch.Generator().manual_seed(0)
    values, pool = torch.randn(50, generator=g), torch.randn(50, generator=g)
    found = value_at(place_among(values, values), pool)
    torch.testing.assert_close(found.sort().values, pool.sort().values)
    assert torch.equal(found.argsort(), values.argsort())


def test_agreement_is_spearmans() -> None:
    """1 for any rising function, -1 for a falling one, and 0 if there is nothing to order."""
    x = torch.randn(40, generator=torch.Generator().manual_seed(0))
    assert agreement(x, x.exp()) == pytest.approx(1)
    assert agreement(x, -(x**3)) == pytest.approx(-1)
    assert agreement(x, torch.ones(40)) == 0


def test_places_may_be_finer_than_values() -> None:
    """In float64, as a script may have by default."""
    pool = torch.tensor([1.0, 2.0, 4.0])
    found = value_at(torch.tensor([1 / 6, 1 / 2, 2 / 3], dtype=torch.float64), pool)
    torch.testing.assert_close(found, torch.tensor([1.0, 2.0, 3.0]))
