"""A curvature's inverse by its eigenvectors and as a matrix: the same, and the matrix only where it saves time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from unsc.steps import inverse
from unsc.steps.curvature import LayerCurvature, RetainedCurvature
from unsc.steps.factors import LowRank, dense


def curvature(columns: int, known: int) -> LayerCurvature:
    g = torch.Generator().manual_seed(0)
    vectors = torch.linalg.qr(torch.randn(1, columns, known, generator=g, dtype=torch.float64))[0]
    return LayerCurvature(torch.rand(1, known, generator=g, dtype=torch.float64), vectors, 0.3, 0.01)


@pytest.mark.parametrize(
    ("outputs", "columns", "known", "by_matrix"),
    [(30, 12, 12, True), (3, 12, 7, True), (2, 12, 12, False), (30, 12, 6, False)],
    ids=["all known", "most known", "few outputs", "few known"],
)
def test_a_matrix_is_made_once_where_it_saves_time(
    outputs: int, columns: int, known: int, by_matrix: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, made = curvature(columns, known), list[Tensor]()
    make = LayerCurvature.inverse
    monkeypatch.setattr(LayerCurvature, "inverse", lambda self: made.append(make(self)) or made[-1])
    found = inverse.Inverse(RetainedCurvature({"x": layer}, 1))
    for seed in range(3):
        gradient = torch.randn(1, outputs, columns, generator=torch.Generator().manual_seed(seed)).double()
        torch.testing.assert_close(found.solve("x", gradient), layer.solve(gradient))
    assert len(made) == by_matrix


def test_factors_stay_factors() -> None:
    layer = curvature(12, 12)
    thin = LowRank(torch.randn(1, 30, 2).double(), torch.randn(1, 2, 12).double())
    found = inverse.Inverse(RetainedCurvature({"x": layer}, 1)).solve("x", thin)
    assert isinstance(found, LowRank)
    torch.testing.assert_close(dense(found), layer.solve(thin.dense()))
