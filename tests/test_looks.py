"""One look at forgotten samples: what it counts, and that it ends no earlier than the decision is certain."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.looks import Known, Look, look_until
from unsc.targets import Goal, Gone, Near, Unnoticed


class Given(nn.Module):
    """A network whose logits are its inputs, and which counts how many samples it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.unused, self.seen = nn.Parameter(torch.zeros(1)), 0

    def forward(self, x: Tensor) -> Tensor:
        self.seen += len(x)
        return x


def test_what_is_still_known_is_counted_and_the_distance_is_a_kl() -> None:
    """Samples whose best class is removed for them, mean probability of removed classes, and mean KL."""
    logits = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.6, 0.1, 0.3]]).log()
    removed = torch.tensor([[True, False, False]] * 2 + [[False, True, True]] * 2)
    targets = torch.tensor([[0.5, 0.25, 0.25]] * 3 + [[1.0, 0.0, 0.0]])
    found = Look.of(logits, removed, targets)
    assert found.known == Known(2, 4)
    assert found.known.percent == 50
    assert found.mass == pytest.approx((0.7 + 0.1 + 0.7 + 0.4) / 4)
    assert found.distance == pytest.approx(F.kl_div(logits, targets, reduction="batchmean").item())
    assert Look.of(logits, removed, logits.exp()).distance == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("goal", [Gone(0.0), Gone(0.05), Gone(1.0), Near(0.001), Near(0.1), Near(2.0)])
@pytest.mark.parametrize("shift", [0.0, 2.0, 4.0, 30.0])
def test_a_look_that_ends_early_decides_what_all_samples_decide(shift: float, goal: Goal) -> None:
    """Exactly, not on average; and where the goal is reached, all samples were looked at."""
    g = torch.Generator().manual_seed(0)
    logits = torch.randn(500, 3, generator=g) - torch.tensor([0.0, 0.0, shift])
    removed = torch.tensor([[False, False, True]]).expand(500, 3)
    targets = logits.masked_fill(removed, -torch.inf).softmax(dim=1)
    model = Given()
    look = look_until(model, Batch(logits, torch.full((500,), 2)), removed, targets, partial(goal.refuted, total=500))
    whole = Look.of(logits, removed, targets)
    assert model.seen == len(look)
    assert goal.refuted(look, 500) == (not goal.reached(whole))
    if goal.reached(whole):
        assert len(look) == 500
        assert goal.reached(look)
    elif shift == 0:
        assert len(look) < 500


def test_nan_is_never_there() -> None:
    logits = torch.full((3, 2), torch.nan)
    look = Look.of(logits, torch.tensor([[True, False]] * 3), torch.full((3, 2), 0.5))
    for goal in (Gone(1.0), Near(1.0), Unnoticed(1.0)):
        assert not goal.reached(look)
        assert goal.refuted(look, 3)


def moved(n: int, higher: float, distance: float) -> Look:
    """At n records whose label has a probability that is `higher` than it should be, at places from 0 to 1."""
    wanted = (torch.arange(n) + 0.5) / n
    return Look(torch.ones(n).bool(), wanted + higher, torch.full((n,), distance), wanted, torch.empty(n, 0))


@pytest.mark.parametrize("n", [30, 300, 3000])
def test_records_are_unnoticed_within_the_error_of_an_attack_on_so_many(n: int) -> None:
    """Places that are higher by a small h have an AUC of 0.5 + h against what they should be."""
    seen = (12 * n) ** -0.5
    assert Unnoticed(0.01).reached(moved(n, 0.8 * seen, 0.015))
    assert not Unnoticed(0.01).reached(moved(n, 1.3 * seen, 0.015))
    assert Unnoticed(0.01).reached(moved(n, -0.4, 0.015)), "less certain than they should be is no trace"
    assert Unnoticed(0.01).reached(moved(n, 1.3 * seen, 0.009))
    assert not Unnoticed(0.01).reached(moved(n, 0.0, 0.03))


@pytest.mark.parametrize("distance", [0.005, 0.03, 0.06])
def test_what_refutes_that_records_are_unnoticed_is_never_reached(distance: float) -> None:
    """Some of the samples can refute it only if all of them do."""
    whole, goal = moved(200, 0.0, distance), Unnoticed(0.01)
    some = moved(199, 0.0, distance)
    assert goal.refuted(some, 200) == (not goal.reached(whole))
