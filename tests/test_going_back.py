"""Layers go back where that costs little of the forgetting: by the best shares, and to nearer retained predictions."""

from __future__ import annotations

import pytest
import torch
from blobs import blobs, learned, network
from torch import Tensor

import unsc
from unsc import going_back, repair
from unsc.going_back import shares_kept

COSTS = torch.tensor([4.0, 1.0, 2.0, 0.0, 3.0], dtype=torch.float64)
GAINS = torch.tensor([0.1, 5.0, 1.0, 0.2, -1.0], dtype=torch.float64)


def test_so_much_is_kept_and_every_layer_keeps_a_part() -> None:
    found = shares_kept(COSTS, GAINS, kept=0.9, least=0.25)
    gains = GAINS.clamp(min=0)
    assert (gains @ found).item() == pytest.approx(0.9 * gains.sum().item())
    assert found.min() == 0.25
    assert found.max() == 1.0


def test_what_gains_nothing_goes_back_and_what_costs_nothing_stays() -> None:
    found = shares_kept(COSTS, GAINS, kept=0.95, least=0.25)
    assert found[4] == 0.25
    assert found[3] == 1.0


def test_no_other_shares_cost_less() -> None:
    found = shares_kept(COSTS, GAINS, kept=0.9, least=0.25)
    others = 0.25 + 0.75 * torch.rand(20000, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gains = GAINS.clamp(min=0)
    as_much = others[others @ gains >= 0.9 * gains.sum()]
    assert len(as_much) > 100
    assert (as_much.square() @ COSTS).min() > found.square() @ COSTS


@pytest.mark.parametrize("gains", [torch.zeros(5), -torch.ones(5)])
def test_nothing_moves_where_nothing_is_gained(gains: Tensor) -> None:
    assert torch.equal(shares_kept(COSTS, gains.double(), kept=0.9), torch.ones(5, dtype=torch.float64))


def test_without_any_cost_nothing_moves() -> None:
    assert torch.equal(shares_kept(torch.zeros(5).double(), GAINS, kept=0.9), torch.ones(5, dtype=torch.float64))


def test_retained_predictions_come_nearer_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any fit, every layer still apart from the original, and the class as forgotten as before."""
    points = blobs(each=60, classes=6)
    model = learned(network(6), points)
    monkeypatch.setattr(repair, "fitted", lambda *_, **__: None)
    monkeypatch.setattr(going_back, "_KEPT", 0.8)
    back = unsc.forget(model, points, classes=[3])
    monkeypatch.setattr(repair, "go_back", lambda *_: None)
    plain = unsc.forget(model, points, classes=[3])
    assert back.ok
    assert back.metrics.retained_kl < 0.9 * plain.metrics.retained_kl
    assert back.metrics.forget_mass < 1.01 * plain.metrics.forget_mass
    for a, b in zip(back.model.parameters(), model.parameters(), strict=True):
        assert not torch.equal(a, b)
