"""One covariance for all samples: against scikit-learn and scipy, and where nothing can be told."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.covariance import ledoit_wolf

from unsc.evaluation.shared import lira
from unsc.evaluation.shared.gaussian import score, shrunk_covariance
from unsc.evaluation.shared.roc import roc


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("n", "d"), [(40, 3), (5, 8), (300, 1)])
def test_the_covariance_is_scikit_learns(n: int, d: int) -> None:
    rows = drawn(n, d) @ torch.diag(torch.arange(1.0, d + 1, dtype=torch.float64))
    expected, _ = ledoit_wolf(rows.numpy(), assume_centered=True)
    assert torch.allclose(shrunk_covariance(rows), torch.as_tensor(expected))


def test_rows_of_one_direction_keep_a_full_rank_and_equal_ones_stay_finite() -> None:
    rows = drawn(6, 1) @ torch.ones(1, 4, dtype=torch.float64)
    assert torch.linalg.matrix_rank(shrunk_covariance(rows)) == 4
    same = torch.zeros(3, 10, 2, dtype=torch.float64)
    assert torch.isfinite(score(drawn(10, 2), same, same + 1)).all()


def test_the_score_is_a_ratio_of_predictive_densities() -> None:
    """By scipy's density, with the covariance of what is left after the means, for a further model of the kind."""
    unlearned, retrained, judged = 1 + drawn(4, 50, 3), drawn(5, 50, 3, seed=1), drawn(2, 50, 3, seed=2)

    def log_density(shadows: torch.Tensor, model: int, sample: int) -> float:
        s = len(shadows)
        rest = (shadows - shadows.mean(dim=0)).reshape(-1, 3) * (s / (s - 1)) ** 0.5
        covariance = ledoit_wolf(rest.numpy(), assume_centered=True)[0] * (1 + 1 / s)
        mean = shadows[:, sample].mean(dim=0).numpy()
        return float(multivariate_normal(mean, covariance).logpdf(judged[model, sample].numpy()))

    found = score(judged, unlearned, retrained)
    assert found.shape == (2, 50)
    for model, sample in ((0, 0), (1, 7)):
        expected = log_density(unlearned, model, sample) - log_density(retrained, model, sample)
        assert found[model, sample].item() == pytest.approx(expected)


def test_in_one_dimension_it_ranks_as_u_lira_does() -> None:
    """The same means and pooled variances; only the uncertainty of the means is new, and that is the same for all."""
    unlearned, retrained, judged = 1 + drawn(4, 200), drawn(4, 200, seed=1), drawn(200, seed=2)
    ours = score(judged[:, None], unlearned[..., None], retrained[..., None])
    theirs = lira.score(judged, unlearned, retrained)
    assert torch.corrcoef(torch.stack([ours, theirs]))[0, 1] > 0.999


def test_dimensions_that_say_little_each_say_much_together() -> None:
    """Two numbers whose difference alone tells the kinds apart: neither does by itself."""
    noise, small = 3 * drawn(9, 300, 1), 0.3 * drawn(9, 300, 2, seed=1)
    both = noise + small
    both[:5] += torch.tensor([0.5, -0.5], dtype=torch.float64)
    unlearned, judged, retrained, unseen = both[:4], both[4], both[5:8], both[8]

    def auc(chosen: list[int]) -> float:
        fit = unlearned[..., chosen], retrained[..., chosen]
        return float(roc(score(judged[:, chosen], *fit), score(unseen[:, chosen], *fit)).auc())

    assert auc([0, 1]) > 0.9
    assert max(auc([0]), auc([1])) < 0.7
