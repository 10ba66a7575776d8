"""What settings are chosen by: nothing destroyed or untouched can win against what keeps and forgets."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import nn

from unsc.batches import Batch
from unsc.compare.scoring import LOWEST, Score, score
from unsc.methods import Problem
from unsc.request import Request

SHARES = [i / 20 for i in range(21)]
UNTOUCHED = score(1.0, 0.0)


def test_keeping_more_or_forgetting_more_never_counts_against_settings() -> None:
    for (kept, gone), (kept_too, gone_too) in product(product(SHARES, repeat=2), repeat=2):
        if kept_too >= kept and gone_too >= gone:
            assert score(kept_too, gone_too) >= score(kept, gone)


@pytest.mark.parametrize("kept", [0.0, 0.02, 0.1, 0.3, 0.49])
def test_a_destroyed_network_is_worth_less_than_one_that_nothing_was_done_to(kept: float) -> None:
    """Though it forgets everything, and by a mean of the two it would be worth as much or more."""
    assert LOWEST <= score(kept, 1.0) < UNTOUCHED
    assert score(kept, 1.0) < score(kept + 0.01, 0.0)  # and the search can tell which way to go


def test_the_worse_of_the_two_decides() -> None:
    assert UNTOUCHED < score(1.0, 0.1) < score(0.7, 0.7) < score(0.9, 0.8) < score(0.85, 1.0) < score(1.0, 1.0)
    assert score(1.0, 1.0) < score(1.02, 1.0)  # where all is forgotten, what is kept above the original's counts still


class Fixed(nn.Module):
    """Is right on the first `retained` of 100 retained samples and the first `forgotten` of 10 forgotten ones."""

    def __init__(self, retained: int, forgotten: int) -> None:
        super().__init__()
        self.marks = nn.Parameter(torch.tensor([float(retained), float(forgotten)]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A sample is its class, 0 if it is retained and 1 if forgotten, and its place."""
        of_class = x[:, 0].long()
        right = x[:, 1] < self.marks[of_class]
        said = torch.where(right, of_class, 1 - of_class)
        return nn.functional.one_hot(said, 2) * 5.0 + 0 * self.marks.sum()


def _samples(label: int, n: int) -> Batch:
    return Batch(torch.tensor([[float(label), i] for i in range(n)]), torch.full((n,), label))


def test_both_are_measured_against_the_original() -> None:
    """Of an original that is right on 60 % of what is retained and 40 % of what is forgotten."""
    validation = (_samples(0, 100), _samples(1, 10))
    judge = Score.of(Problem(Fixed(60, 4), Request.for_classes([1], 2)), validation)
    assert judge.judged(Fixed(60, 4)) == pytest.approx((60, 40, UNTOUCHED))
    assert judge.judged(Fixed(54, 1)) == pytest.approx((54, 10, score(0.9, 0.75)))
    assert judge.judged(Fixed(66, 0)) == pytest.approx((66, 0, score(1.1, 1.0)))
    assert judge.judged(Fixed(6, 0)).score == pytest.approx(0.1 - 1)


def test_what_the_original_never_knew_need_not_be_forgotten() -> None:
    validation = (_samples(0, 100), _samples(1, 10))
    judge = Score.of(Problem(Fixed(60, 0), Request.for_classes([1], 2)), validation)
    assert judge.judged(Fixed(60, 0)).score == pytest.approx(1.0)
    assert judge.judged(Fixed(60, 5)).score == pytest.approx(score(1.0, 0.5))
