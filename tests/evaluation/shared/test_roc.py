"""AUC and true positive rate, against scikit-learn and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve
from torch import Tensor

from unsc.evaluation.shared.roc import roc

REPEATABLE = settings(max_examples=60, deadline=None, derandomize=True)
# Few distinct values, so that most examples have ties within and between the two sets.
SCORES = st.lists(st.integers(-3, 3), min_size=1, max_size=30)


def both(positives: Tensor, negatives: Tensor) -> tuple[np.ndarray, np.ndarray]:
    truth = np.r_[np.ones(len(positives)), np.zeros(len(negatives))]
    return truth, torch.cat([positives, negatives]).numpy()


@REPEATABLE
@given(SCORES, SCORES)
def test_auc_is_that_of_scikit_learn(high: list[int], low: list[int]) -> None:
    positives, negatives = (torch.tensor(s, dtype=torch.float64) for s in (high, low))
    assert roc(positives, negatives).auc().item() == pytest.approx(roc_auc_score(*both(positives, negatives)))


@REPEATABLE
@given(SCORES, SCORES, st.sampled_from([0.0, 0.01, 0.1, 0.25, 0.5, 1.0]))
def test_the_rate_is_the_best_one_on_the_curve_of_scikit_learn(high: list[int], low: list[int], fpr: float) -> None:
    positives, negatives = (torch.tensor(s, dtype=torch.float64) for s in (high, low))
    false, true, _ = roc_curve(*both(positives, negatives), drop_intermediate=False)
    assert roc(positives, negatives).tpr(fpr).item() == pytest.approx(true[false <= fpr + 1e-12].max())


def test_by_hand() -> None:
    """Of the six pairs two are right and one is a tie; a threshold must not cut through equal scores."""
    curve = roc(torch.tensor([3.0, 1.0]), torch.tensor([2.0, 1.0, 4.0]))
    assert curve.auc().item() == pytest.approx((2 + 0.5) / 6)
    assert [curve.tpr(f).item() for f in (0.0, 0.34, 0.67, 1.0)] == [0.0, 0.5, 0.5, 1.0]
    tied = roc(torch.tensor([1.0, 1.0]), torch.tensor([1.0, 1.0]))
    assert (tied.auc().item(), tied.tpr(0.5).item(), tied.tpr(1.0).item()) == (0.5, 0.0, 1.0)


@pytest.mark.parametrize(("fpr", "negatives", "allowed"), [(0.01, 100, 1), (0.01, 2900, 29), (0.29, 100, 29)])
def test_a_whole_number_of_false_alarms_is_allowed_exactly(fpr: float, negatives: int, allowed: int) -> None:
    """Though 0.29 * 100 is less than 29 in floating point."""
    low = torch.arange(negatives, dtype=torch.float64)
    just_below = torch.tensor([negatives - allowed - 0.5], dtype=torch.float64)  # under so many of the negatives
    assert roc(just_below, low).tpr(fpr).item() == 1.0
    assert roc(just_below - 1, low).tpr(fpr).item() == 0.0


def test_counts_are_copies() -> None:
    """A resample that draws a score k times is the set with k copies of it."""
    g = torch.Generator().manual_seed(0)
    high, low = torch.randint(5, (9,), generator=g).double(), torch.randint(4, (7,), generator=g).double()
    times = torch.randint(1, 4, (3, 9), generator=g), torch.randint(0, 3, (3, 7), generator=g)
    together = roc(high, low, times)
    for r in range(3):
        alone = roc(high.repeat_interleave(times[0][r]), low.repeat_interleave(times[1][r]))
        assert together.auc()[r].item() == pytest.approx(alone.auc().item())
        assert together.tpr(0.2)[r].item() == pytest.approx(alone.tpr(0.2).item())
