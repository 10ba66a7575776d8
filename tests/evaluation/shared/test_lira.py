"""U-LiRA's score on Gaussians, where the best attack is known in closed form."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import norm
from torch import Tensor

from unsc.evaluation.shared import lira
from unsc.evaluation.shared.roc import roc


def gaussians(models: int, n: int, seed: int, shift: float = 0.0, scale: float = 1.0) -> Tensor:
    """Log-odds (models, n), around a mean of its own for each sample."""
    centre = 5 * torch.randn(n, generator=torch.Generator().manual_seed(99), dtype=torch.float64)
    noise = torch.randn(models, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return centre + shift + scale * noise


@pytest.mark.parametrize("shift", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("models", [40, lira.ENOUGH])
def test_auc_for_shifted_gaussians_is_the_closed_form(shift: float, models: int) -> None:
    """Φ(shift / √2); for the log-odds themselves, without the shadows, it would be near 0.5."""
    n = 4000
    shadows = gaussians(models, n, 1, shift), gaussians(models, n, 2)
    unlearned, retrained = gaussians(1, n, 3, shift)[0], gaussians(1, n, 4)[0]
    found = roc(lira.score(unlearned, *shadows), lira.score(retrained, *shadows)).auc().item()
    assert found == pytest.approx(0.5 * (1 + math.erf(shift / 2)), abs=0.03)
    if shift:
        assert roc(unlearned, retrained).auc().item() < found - 0.1


def test_score_is_the_ratio_of_normal_densities() -> None:
    """With the pooled variance of each kind below 64 models, and one for each sample from there on."""
    for models in (3, lira.ENOUGH):
        a, b = gaussians(models, 20, 1, 0.5, 2.0), gaussians(models, 20, 2)
        x = gaussians(1, 20, 3)[0]
        sd_a, sd_b = (s.var(dim=0).sqrt() if models > 3 else s.var(dim=0).mean().sqrt().expand(20) for s in (a, b))
        expected = norm.logpdf(x, a.mean(dim=0), sd_a) - norm.logpdf(x, b.mean(dim=0), sd_b)
        torch.testing.assert_close(lira.score(x, a, b), torch.from_numpy(expected))
    assert (lira.spread(3), lira.spread(lira.ENOUGH)) == ("pooled", "by sample")


def test_the_scarcer_kind_decides_how_variances_are_estimated() -> None:
    many, few = gaussians(lira.ENOUGH, 5, 1), gaussians(2, 5, 2)
    x = gaussians(1, 5, 3)[0]
    assert torch.equal(lira.score(x, many, few), -lira.score(x, few, many))
    pooled = norm.logpdf(x, many.mean(dim=0), many.var(dim=0).mean().sqrt())
    other = norm.logpdf(x, few.mean(dim=0), few.var(dim=0).mean().sqrt())
    torch.testing.assert_close(lira.score(x, many, few), torch.from_numpy(pooled - other))


def test_log_odds_far_outside_give_the_model_away_and_stay_finite() -> None:
    """At -1e4, as a masked class has, even where all shadows agree to the last digit."""
    retrained = gaussians(4, 50, 1)
    masked = torch.full((4, 50), -1e4, dtype=torch.float64)
    positives, negatives = (lira.score(x[0], masked, retrained) for x in (masked, gaussians(1, 50, 2)))
    assert torch.isfinite(torch.cat([positives, negatives])).all()
    assert roc(positives, negatives).auc().item() == 1.0


def test_each_fold_leaves_a_shadow_out_and_scores_all_alike() -> None:
    generator = torch.Generator().manual_seed(5)
    unlearned, retrained, unseen = (torch.randn(4, 7, generator=generator, dtype=torch.float64) for _ in range(3))
    judged, unseen = unseen[0], unseen[1:3]
    positives, negatives = (x.view(4, -1, 7) for x in lira.attack(judged, unseen, unlearned, retrained))
    assert positives.shape == (4, 1, 7) and negatives.shape == (4, 2 + 1, 7)
    rest = retrained[[0, 2, 3]]
    for found, model in zip((*positives[1], *negatives[1]), (judged, *unseen, retrained[1]), strict=True):
        torch.testing.assert_close(found, lira.score(model, unlearned, rest))
    few, alone = lira.attack(judged, unseen[:0], unlearned, retrained[:2])
    assert torch.equal(few, alone)  # nobody else to compare with


def test_a_retrained_model_is_at_chance() -> None:
    """All models alike: the mean AUC over draws of models is 0.5, within three standard errors. Judged models that
    were scored by more shadows than those to compare with would be below."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(400):
        models = torch.randn(10, 40, generator=generator, dtype=torch.float64)
        found.append(roc(*lira.attack(models[0], models[1:3], models[3:6], models[6:])).auc())
    aucs = torch.stack(found)
    assert abs(aucs.mean() - 0.5) < 3 * aucs.std() / 20 < 0.02
