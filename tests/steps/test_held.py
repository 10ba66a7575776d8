"""What a guide holds in each layer, against counts that need no guide."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from unsc.api import forget
from unsc.bench.datasets import Split
from unsc.steps.curvature import LayerCurvature, RetainedCurvature
from unsc.steps.held import held_by
from unsc.steps.subspace import NullSpace, NullSpaces


def test_a_curvature_holds_as_many_directions_as_are_dear() -> None:
    """Eigenvalues far above the damping count 1, those far below 0, one that equals it a half."""
    values = torch.tensor([[1e9, 1e9, 1.0, 1e-9]])
    guide = RetainedCurvature({"a": LayerCurvature(values, torch.eye(6)[None, :, :4], 1.0, 1.0)}, 10)
    assert held_by(guide) == {"a": (pytest.approx(2.5), 6)}


def test_null_spaces_hold_the_rank_of_their_basis() -> None:
    basis = torch.eye(5)[None, :, :3]
    space = NullSpace({"a": basis}, {"a": (int(torch.linalg.matrix_rank(basis[0])),)}, (0,), {})
    other = NullSpace({"a": basis[..., :1]}, {"a": (1,)}, (1,), {})
    assert held_by(space) == {"a": (3.0, 5)}
    assert held_by(NullSpaces({0: space, 1: other})) == {"a": (2.0, 5)}


@pytest.mark.parametrize("step", ["budgeted", "paper"])
def test_a_run_tells_of_every_layer(digits: Split, digits_model: nn.Module, step: str) -> None:
    metrics = forget(digits_model, digits.train, classes=[3], max_passes=1, step=step).metrics
    assert metrics.layers.keys() == metrics.drift.keys()
    for name, layer in metrics.layers.items():
        assert layer.drift == metrics.drift[name]
        assert layer.held is not None and layer.columns is not None and 0 < layer.held <= layer.columns
        assert (layer.spent is None) == (step == "paper")
