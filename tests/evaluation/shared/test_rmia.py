"""RMIA's parts against loops over its definition."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from unsc.evaluation.shared.rmia import log_ratio, same_mix, score, slope


def probabilities(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("a", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("gamma", [1.0, 2.0])
def test_score_is_the_published_formula(a: float, gamma: float) -> None:
    """Written as a loop over samples and population, with plain probabilities."""
    models, n, m = 4, 12, 9
    x, z = probabilities(n), probabilities(m, seed=1)
    x_refs, z_refs = probabilities(models, n, seed=2), probabilities(models, m, seed=3)
    x_unseen, z_unseen = (probabilities(models, k, seed=4) > 0.5 for k in (n, m))
    x_unseen[0], z_unseen[0] = True, True
    found = score(log_ratio(x.log(), x_refs.log(), x_unseen, a), log_ratio(z.log(), z_refs.log(), z_unseen, a), gamma)

    def ratio(p: Tensor, refs: Tensor, unseen: Tensor, i: int) -> float:
        out = [refs[k, i].item() for k in range(models) if unseen[k, i]]
        return p[i].item() / (((1 + a) * sum(out) / len(out) + (1 - a)) / 2)

    for i in range(n):
        wins = [ratio(x, x_refs, x_unseen, i) / ratio(z, z_refs, z_unseen, j) >= gamma for j in range(m)]
        assert found[i].item() == pytest.approx(sum(wins) / m)


def test_equal_ratios_count_as_wins() -> None:
    """The comparison is >=."""
    assert score(torch.tensor([0.0, -1.0, 1.0]), torch.tensor([0.0, 0.0, 1.0, 2.0])).tolist() == [0.5, 0.0, 0.75]


def test_slope_is_found() -> None:
    """Models that saw a sample have p = a p_out + 1 - a exactly."""
    p_out, saw = probabilities(6, 4000), probabilities(6, 4000, seed=1) < 0.5
    p = torch.where(saw, 0.3 * p_out + 0.7, p_out)
    assert slope(p.log(), saw) == pytest.approx(0.3, abs=0.01)


def test_slope_without_anything_to_compare_is_one() -> None:
    """Then p(x) = p_out; likewise where no model makes an error, or memory makes worse."""
    p, none = probabilities(2, 5).log(), torch.zeros(2, 5, dtype=torch.bool)
    half = torch.tensor([[True] * 5, [False] * 5])
    assert slope(p, none) == slope(p, ~none) == slope(torch.zeros(2, 5), half) == 1.0
    assert slope(torch.tensor([[0.2] * 5, [0.8] * 5]).log(), half) == 1.0


@pytest.mark.parametrize("a", [0.0, 0.5, 1.0])
def test_probabilities_that_round_to_nothing_stay_finite(a: float) -> None:
    """A log-probability of -1e4 in the judged model, in the references, or in both."""
    tiny = torch.tensor([-1e4, 0.0, -1e4, 0.0], dtype=torch.float64)
    refs = torch.tensor([[0.0, -1e4, -1e4, 0.0]] * 2, dtype=torch.float64)
    found = log_ratio(tiny, refs, torch.ones(2, 4, dtype=torch.bool), a)
    assert torch.isfinite(found).all()
    least = -1e4 if a == 1 else math.log((1 - a) / 2)
    assert found.tolist() == pytest.approx([-1e4, -least, -1e4 - least, 0.0])


def test_a_model_that_did_see_the_sample_does_not_count() -> None:
    refs, unseen = probabilities(3, 5).log(), torch.tensor([[True] * 5, [False] * 5, [True] * 5])
    changed = refs.clone()
    changed[1] = -3.0
    judged = probabilities(5, seed=1).log()
    assert torch.equal(log_ratio(judged, refs, unseen, 0.4), log_ratio(judged, changed, unseen, 0.4))
    changed[2] = -3.0
    assert not torch.equal(log_ratio(judged, refs, unseen, 0.4), log_ratio(judged, changed, unseen, 0.4))


def test_the_classes_are_mixed_alike() -> None:
    """Two of three samples are of class 0; of class 7 nothing is wanted. All that can be is taken, none twice."""
    wanted = torch.tensor([0, 0, 4, 0, 0, 4])
    labels = torch.tensor([7] * 20 + [0] * 30 + [4] * 40)
    chosen = same_mix(wanted, labels, torch.Generator().manual_seed(0))
    assert (labels[chosen] == 0).sum() == 30
    assert (labels[chosen] == 4).sum() == 15
    assert len(chosen) == len(chosen.unique()) == 45
    other = same_mix(wanted, labels, torch.Generator().manual_seed(1))
    assert chosen.sort().values.tolist() != other.sort().values.tolist()


def test_one_class_is_taken_whole() -> None:
    labels = torch.tensor([3, 1, 3, 3])
    assert sorted(same_mix(torch.tensor([3, 3]), labels, torch.Generator()).tolist()) == [0, 2, 3]
