"""Bootstrap intervals: what is drawn, and that they hold what they promise."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from unsc.evaluation.shared import bootstrap
from unsc.evaluation.shared.bootstrap import intervals, multiplicities
from unsc.evaluation.shared.roc import roc


def test_every_resample_has_as_many_draws_as_samples() -> None:
    """Each sample is drawn once on average, and left out with probability (1 - 1/n)^n."""
    times = multiplicities(50, 4000, torch.Generator().manual_seed(0))
    assert times.shape == (4000, 50)
    assert (times.sum(dim=1) == 50).all()
    torch.testing.assert_close(times.double().mean(dim=0), torch.ones(50, dtype=torch.float64), atol=0.1, rtol=0)
    assert (times == 0).double().mean().item() == pytest.approx(0.98**50, abs=0.01)


def test_the_interval_of_a_mean_is_the_known_one() -> None:
    """For a mean the bootstrap distribution is normal, with the standard error of the sample."""
    x = torch.randn(400, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ((low, high),) = intervals(lambda t: t.double() @ x[:, None] / 400, [400], seed=0, resamples=4000)
    half = 1.96 * x.std(correction=0).item() / math.sqrt(400)
    assert (low, high) == pytest.approx((x.mean().item() - half, x.mean().item() + half), abs=0.1 * half)


def test_strata_are_drawn_by_themselves_and_statistics_keep_their_order() -> None:
    """Totals of each stratum never change; another seed gives other draws, the same seed the same."""
    seen: list[tuple[Tensor, Tensor]] = []

    def statistics(a: Tensor, b: Tensor) -> Tensor:
        seen.append((a, b))
        return torch.stack([a.sum(dim=1), b.sum(dim=1), a[:, 0]], dim=1)

    found = [intervals(statistics, [5, 8], seed=seed, resamples=200) for seed in (0, 0, 1)]
    assert found[0][:2] == [(5, 5), (8, 8)]
    assert found[0][2][0] < found[0][2][1]
    assert torch.equal(seen[0][0], seen[1][0])
    assert not torch.equal(seen[0][0], seen[2][0])


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few resamples at a time, and all of them in the end."""
    monkeypatch.setattr(bootstrap, "_AT_ONCE", 100)
    rows: list[int] = []

    def statistics(a: Tensor, b: Tensor) -> Tensor:
        rows.append(len(a))
        return torch.zeros(len(a), 1)

    intervals(statistics, [20, 10], seed=0, resamples=10)
    assert rows == [3, 3, 3, 1]


def test_intervals_of_an_auc_cover_the_true_one() -> None:
    """95 % of them, for two Gaussians whose AUC is known: Φ(1/√2)."""
    g = torch.Generator().manual_seed(0)
    truth, trials, covered = 0.5 * (1 + math.erf(0.5)), 300, 0
    for seed in range(trials):
        high, low = 1 + torch.randn(60, generator=g), torch.randn(80, generator=g)
        ((lower, upper),) = intervals(
            lambda p, n, high=high, low=low: roc(high, low, (p, n)).auc()[:, None], [60, 80], seed=seed, resamples=300
        )
        covered += lower <= truth <= upper
    assert 0.91 <= covered / trials <= 0.98
