"""Statistics of predictions over the classes that stay, and which of them is chosen."""

from __future__ import annotations

import pytest
import torch

from unsc.evaluation.shared.gaussian import score
from unsc.evaluation.shared.kept import STATISTICS, all_log_odds, attack, strongest


def test_all_log_odds_are_those_of_each_class() -> None:
    """By the plain formula, where it can be computed."""
    logits = torch.randn(20, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    p = logits.softmax(dim=1)
    assert torch.allclose(all_log_odds(logits), torch.log(p / (1 - p)))


def test_a_probability_that_rounds_to_one_keeps_its_odds() -> None:
    assert all_log_odds(torch.tensor([[100.0, 0.0, -50.0]]))[0].tolist() == pytest.approx([100, -100, -150])


def test_no_statistic_depends_on_the_level_of_the_logits() -> None:
    """Only the prediction is attacked: two heads with the same softmax look the same."""
    logits = torch.randn(20, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for name, of in STATISTICS.items():
        assert of(logits).shape == (20, 5 if name == "all log-odds" else 1)
        assert torch.allclose(of(logits), of(logits + 7))


def shadows(sharper: float, models: int, seed: int) -> dict[str, torch.Tensor]:
    """Models whose predictions differ by chance, some of them sharper than others."""
    g = torch.Generator().manual_seed(seed)
    logits = [sharper * torch.randn(100, 4, dtype=torch.float64, generator=g) for _ in range(models)]
    return {name: torch.stack([of(x) for x in logits]) for name, of in STATISTICS.items()}


def test_the_statistic_that_tells_most_is_chosen() -> None:
    """Where only the sharpness differs, one number shows it and the log-odds of each class hardly do."""
    name, found = strongest(shadows(3.0, 4, 0), shadows(1.0, 4, 1))
    assert set(found) == set(STATISTICS)
    assert found[name] == max(found.values()) > 0.7
    _, same = strongest(shadows(1.0, 4, 0), shadows(1.0, 4, 1))
    assert all(abs(auc - 0.5) < 0.1 for auc in same.values())


def test_with_two_shadows_nothing_is_left_to_choose_by() -> None:
    assert strongest(shadows(3.0, 2, 0), shadows(1.0, 4, 1)) == ("all log-odds", {})


def test_every_model_is_scored_by_a_fit_it_took_no_part_in() -> None:
    """By hand: each pair of shadows is left out in turn, and scored with the judged and the unseen."""
    unlearned, retrained, judged, unseen = (
        shadows(1.0, n, seed)["margin"] for n, seed in ((3, 0), (4, 1), (1, 2), (2, 3))
    )
    positives, negatives = attack(judged, unseen, unlearned, retrained)
    assert positives.shape == (3 * 2 * 100,) and negatives.shape == (3 * 3 * 100,)
    fit = unlearned[[0, 2]], retrained[[0, 2, 3]]  # the second of each is left out
    assert torch.allclose(positives[200:400], torch.cat([score(judged[0], *fit), score(unlearned[1], *fit)]))
    assert torch.allclose(negatives[500:600], score(retrained[1], *fit))


def test_two_shadows_are_all_fitted_to() -> None:
    unlearned, retrained, judged = (shadows(1.0, n, seed)["margin"] for n, seed in ((2, 0), (2, 1), (1, 2)))
    positives, negatives = attack(judged, judged[:0], unlearned, retrained)
    assert torch.equal(positives, negatives)  # with itself, for want of others
    assert torch.equal(positives, score(judged[0], unlearned, retrained))
