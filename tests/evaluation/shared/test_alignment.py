"""Centred kernel alignment: its invariances, and the definition with kernels."""

from __future__ import annotations

import pytest
import torch

from unsc.evaluation.shared.alignment import linear_cka


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("n", [8, 200])
def test_rotation_scale_and_offset_do_not_matter(n: int) -> None:
    """Both forms: with fewer samples than features, and with more."""
    x, y = normal(0, n, 12), normal(1, n, 5)
    rotation = torch.linalg.qr(normal(2, 12, 12)).Q
    assert linear_cka(x, 3 * x @ rotation + 7) == pytest.approx(1)
    assert linear_cka(y, 3 * x @ rotation + 7) == pytest.approx(linear_cka(y, x))
    assert linear_cka(x, y) == pytest.approx(linear_cka(y, x))
    # An invertible map that is no rotation does matter.
    assert linear_cka(x, x * torch.linspace(0.01, 5, 12)) < 0.95


@pytest.mark.parametrize(("n", "a", "b"), [(6, 10, 4), (300, 10, 4), (14, 10, 4), (13, 10, 4)])
def test_it_is_the_normalised_hsic(n: int, a: int, b: int) -> None:
    """tr(K H L H) / sqrt(tr(K H K H) tr(L H L H)) with K = x x.T, L = y y.T and H the centring matrix."""
    x, y = normal(3, n, a), normal(4, n, b)
    y = y + 0.5 * x[:, :b]
    centring = torch.eye(n, dtype=torch.float64) - 1 / n
    k, m = centring @ x @ x.T @ centring, centring @ y @ y.T @ centring
    expected = (k @ m).trace() / ((k @ k).trace() * (m @ m).trace()).sqrt()
    assert linear_cka(x, y) == pytest.approx(expected.item())


def test_unrelated_features_have_nothing_in_common() -> None:
    assert linear_cka(normal(5, 5000, 8), normal(6, 5000, 8)) < 0.01
    assert linear_cka(torch.ones(20, 3), normal(7, 20, 3)) == 0


def test_by_hand() -> None:
    """Of two independent features of equal variance one is shared: 1 / sqrt(2)."""
    x = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]).repeat(5, 1)
    assert linear_cka(x, x[:, :1]) == pytest.approx(0.5**0.5)
