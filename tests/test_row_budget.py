"""Moments from a budget of rows: unbiased, spread evenly, and exact where the budget covers everything."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.collect import RowBudget, collect, draw_evenly
from unsc.layers import Layer, find_layers

REPEATABLE = settings(max_examples=60, deadline=None, derandomize=True)


@REPEATABLE
@given(st.integers(2, 40), st.data(), st.integers(0, 1000))
def test_each_run_of_rows_gives_one_and_its_weight_is_the_runs_length(n: int, data: st.DataObject, seed: int) -> None:
    """Weights sum to n, runs differ by at most one row, and the drawn ones are in order: spread evenly."""
    count = data.draw(st.integers(1, n - 1))
    draw = draw_evenly(n, count, torch.Generator().manual_seed(seed))
    assert draw is not None
    weights = draw.scale.square().round().long()
    assert len(draw.chosen) == count
    assert weights.sum() == n
    assert weights.max() - weights.min() <= 1
    ends = weights.cumsum(dim=0)
    assert ((draw.chosen >= ends - weights) & (draw.chosen < ends)).all()


def test_enough_budget_takes_rows_as_they_are() -> None:
    """And nothing is drawn: the generator is left alone."""
    generator = torch.Generator().manual_seed(0)
    before = generator.get_state()
    assert all(draw_evenly(7, count, generator) is None for count in (7, 8, 1000))
    assert torch.equal(generator.get_state(), before)


@pytest.mark.parametrize(("n", "count"), [(10, 3), (12, 4), (9, 8)])
def test_the_drawn_moment_is_unbiased(n: int, count: int) -> None:
    """Its mean over 4,000 seeds is the moment of all rows, within five standard errors in each entry."""
    generator = torch.Generator().manual_seed(0)
    whole = torch.randn(n, 4, dtype=torch.float64, generator=generator)
    found: list[Tensor] = []
    for _ in range(4000):
        draw = draw_evenly(n, count, generator)
        assert draw is not None
        drawn = whole[draw.chosen] * draw.scale[:, None]
        found.append(drawn.T @ drawn)
    moments = torch.stack(found)
    error = moments.std(dim=0) / 4000**0.5
    assert ((moments.mean(dim=0) - whole.T @ whole).abs() <= 5 * error + 1e-9).all()


def network() -> tuple[nn.Module, tuple[Layer, ...]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(75, 4)).double().eval()
    return model, find_layers(model).layers


def batches() -> list[Batch]:
    x = torch.randn(40, 1, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return [Batch(part, torch.zeros(len(part), dtype=torch.long)) for part in x.split(16)]


def test_a_budget_that_covers_everything_gives_the_exact_moments() -> None:
    model, layers = network()
    exact = collect(model, layers, batches())
    found = collect(model, layers, batches(), rows=RowBudget(40, torch.Generator(), per_column=10**6))
    for x in layers:
        assert torch.equal(found[x.name].dense(), exact[x.name].dense())
        assert found[x.name].count == exact[x.name].count


def test_collected_moments_are_unbiased_and_take_few_rows() -> None:
    """Of 40 x 25 rows of the convolution 80 to 90 are taken; the mean over 400 seeds is the exact moment."""
    model, layers = network()
    exact = collect(model, layers, batches())["0"].dense()
    generator, found = torch.Generator().manual_seed(0), []
    for _ in range(400):
        moment = collect(model, layers[:1], batches(), rows=RowBudget(40, generator, per_column=16))["0"]
        assert 80 <= moment.count <= 90
        found.append(moment.dense())
    stacked = torch.stack(found)
    error = stacked.std(dim=0) / 400**0.5
    assert ((stacked.mean(dim=0) - exact).abs() <= 5 * error + 1e-9).all()


def test_each_sample_gives_a_row_at_least() -> None:
    """A layer of one row a sample is taken whole, however small the budget."""
    model, layers = network()
    found = collect(model, layers, batches(), rows=RowBudget(10**9, torch.Generator(), per_column=1))
    assert found["3"].count == 40
    assert found["0"].count == 40
    torch.testing.assert_close(found["3"].dense(), collect(model, layers, batches())["3"].dense())


def test_a_seed_decides_which_rows() -> None:
    model, layers = network()
    made = [
        collect(model, layers, batches(), rows=RowBudget(40, torch.Generator().manual_seed(s), 2))["0"].dense()
        for s in (0, 0, 1)
    ]
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])
