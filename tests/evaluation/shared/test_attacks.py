"""Features of a prediction against their definitions, and the paper's attack on data made by hand."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import entropy as scipy_entropy

from unsc.errors import InvalidData, UnsupportedModel
from unsc.evaluation.shared.attacks import enough, entropy, into_range, log_odds, log_probability, take_for_outsiders


def logits_and_labels() -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    return 3 * torch.randn(50, 7, generator=g, dtype=torch.float64), torch.randint(7, (50,), generator=g)


def test_features_are_what_they_are_defined_as() -> None:
    logits, labels = logits_and_labels()
    p = logits.softmax(dim=1)
    p_y = p[torch.arange(50), labels]
    torch.testing.assert_close(log_probability(logits, labels).exp(), p_y)
    torch.testing.assert_close(log_odds(logits, labels), (p_y / (1 - p_y)).log())
    torch.testing.assert_close(entropy(logits), torch.tensor(scipy_entropy(p.numpy(), axis=1)))


def test_by_hand() -> None:
    """Probabilities 1/2, 1/4, 1/4: log-odds of the first 0, of the others log(1/3); entropy 1.5 log 2."""
    logits = torch.tensor([[0.5, 0.25, 0.25]]).log()
    assert log_odds(logits, torch.tensor([0])).item() == pytest.approx(0, abs=1e-7)
    assert log_odds(logits, torch.tensor([2])).item() == pytest.approx(-math.log(3))
    assert log_probability(logits, torch.tensor([1])).item() == pytest.approx(-math.log(4))
    assert entropy(logits).item() == pytest.approx(1.5 * math.log(2))


@pytest.mark.parametrize("size", [1e4, -1e4])
def test_huge_logits_stay_finite(size: float) -> None:
    """Log-odds are ±1e4 up to log 2, the loss 0 or 1e4, and the entropy that of what is left."""
    logits, labels = torch.tensor([[size, 0.0, 0.0]]), torch.tensor([0])
    assert log_odds(logits, labels).item() == pytest.approx(size - math.log(2))
    assert log_probability(logits, labels).item() == pytest.approx(min(0.0, size - math.log(2)))
    assert entropy(logits).item() == pytest.approx(0 if size > 0 else math.log(2))


def test_certain_predictions_still_differ() -> None:
    """Where probabilities round to 1 and a plain log-softmax to 0."""
    logits = torch.tensor([[40.0, 0.0], [50.0, 0.0]], dtype=torch.float64)
    assert (logits.log_softmax(dim=1)[:, 0] == 0).all()
    found = log_probability(logits, torch.tensor([0, 0]))
    torch.testing.assert_close(found, -torch.exp(torch.tensor([-40.0, -50.0], dtype=torch.float64)), atol=0, rtol=1e-9)


def test_float32_logits_are_read_in_float64() -> None:
    logits, labels = logits_and_labels()
    for found in (log_odds(logits.float(), labels), log_probability(logits.float(), labels), entropy(logits.float())):
        assert found.dtype == torch.float64


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_logits_that_are_not_finite_are_refused(bad: float) -> None:
    logits = torch.tensor([[bad, 0.0]])
    for feature in (lambda: log_odds(logits, torch.tensor([1])), lambda: entropy(logits)):
        with pytest.raises(UnsupportedModel, match=r"NaN or Inf.*-1e4"):
            feature()


def test_an_attack_learns_where_members_are() -> None:
    """Members are confident, outsiders are not: judged samples go with those they are like."""
    g = torch.Generator().manual_seed(0)
    members = 0.9 + 0.1 * torch.rand(200, generator=g, dtype=torch.float64)
    outsiders = 0.8 * torch.rand(200, generator=g, dtype=torch.float64)
    gone, accuracy = take_for_outsiders(members, outsiders, torch.tensor([0.0, 0.3, 0.7, 0.93, 1.0]).double())
    assert gone.tolist() == [True, True, True, False, False]
    assert accuracy == 1.0


def test_a_feature_that_tells_nothing_is_no_attack() -> None:
    """All predictions perfectly certain: the same verdict for all, and half of it wrong."""
    gone, accuracy = take_for_outsiders(torch.ones(30), torch.ones(30), torch.ones(10))
    assert len(gone.unique()) == 1
    assert accuracy == 0.5


def test_a_value_far_from_all_known_ones_is_judged_as_the_nearest() -> None:
    """Otherwise the verdict is the intercept's: here it would take a loss of 1e4 for a member's."""
    g = torch.Generator().manual_seed(0)
    members = torch.rand(300, generator=g, dtype=torch.float64)
    outsiders = torch.cat([members[:200], 3 + torch.rand(100, generator=g, dtype=torch.float64)])
    far = torch.tensor([1e4, -5.0, 2.0], dtype=torch.float64)
    assert not take_for_outsiders(members, outsiders, far)[0][0]
    near = into_range(far, members, outsiders)
    assert near.tolist() == [outsiders.max().item(), members.min().item(), 2.0]
    assert take_for_outsiders(members, outsiders, near)[0][0]


def test_too_few_samples_are_refused() -> None:
    enough(5, "negatives")
    with pytest.raises(InvalidData, match=r"there are 1 negatives;.*at least 5"):
        enough(1, "negatives")
