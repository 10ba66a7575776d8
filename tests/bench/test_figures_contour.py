"""The loss around a network: an exact null space does not move it on the samples that it was made from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Subset

from unsc.batches import Batch
from unsc.bench.figures import contour
from unsc.datasets import read, read_labels
from unsc.errors import EmptyNullSpace, InvalidRequest
from unsc.progress import quiet

POINTS, MIDDLE = 5, 2


@pytest.fixture(scope="module")
def few(digits) -> Subset:
    """Three samples of each class but 3."""
    labels = read_labels(digits.train)
    chosen = torch.cat([(labels == k).nonzero().flatten()[:3] for k in range(10) if k != 3])
    return Subset(digits.train, chosen.tolist())


@pytest.fixture(scope="module")
def judged(few: Subset) -> Batch:
    return read(few, range(len(few)))


@pytest.fixture(scope="module")
def exact(digits_model: nn.Module, few: Subset, judged: Batch) -> dict:
    """A null space that leaves nothing out, and the loss on the very samples that it was made from."""
    return contour.measure(digits_model, few, judged, energy=1.0, merge_energy=1.0, reach=2.0, points=POINTS)


def test_the_loss_is_flat_within_an_exact_null_space_and_not_outside(exact: dict, digits_model, judged: Batch) -> None:
    with torch.no_grad():
        original = F.cross_entropy(digits_model(judged.inputs), judged.labels).item()
    assert exact["moved"] and exact["coefficients"] == [-2.0, -1.0, 0.0, 1.0, 2.0]
    assert exact["loss"][MIDDLE] == pytest.approx([original] * POINTS, rel=1e-3, abs=1e-5)
    outside = [row[MIDDLE] for row in exact["loss"]]
    assert all(value > 10 * original + 0.1 for i, value in enumerate(outside) if i != MIDDLE)


def test_both_directions_are_as_long_as_the_weights_and_orthogonal(digits_model: nn.Module, few: Subset) -> None:
    bases, layers = contour.class_subspaces(digits_model, few, 0.97, 256, 0, quiet)
    plane = contour.Plane.span(digits_model, layers, bases.null_space(0.99, {}), seed=0)
    for name, centre in plane.centre.items():
        within, outside = plane.within[name], plane.outside[name]
        assert within.norm().item() == pytest.approx(centre.norm().item(), rel=1e-4)
        assert outside.norm().item() == pytest.approx(centre.norm().item(), rel=1e-4)
        across = (within @ outside.mT).abs().max()
        assert across < 1e-3 * centre.norm() ** 2


def test_layers_without_both_directions_stay(exact: dict) -> None:
    for name, columns in exact["columns"].items():
        assert (name in exact["moved"]) == (0 < exact["free"][name] < columns)
    assert exact["retained"] == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_the_network_itself_is_left_alone(digits_model: nn.Module, few: Subset, judged: Batch) -> None:
    before = {name: t.clone() for name, t in digits_model.state_dict().items()}
    contour.measure(digits_model, few, judged, points=3)
    assert all(torch.equal(t, before[name]) for name, t in digits_model.state_dict().items())


def test_a_full_space_is_an_error() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10, bias=False))
    inputs = torch.eye(64).reshape(64, 1, 8, 8).repeat(2, 1, 1, 1)
    data = torch.utils.data.TensorDataset(inputs, torch.arange(2).repeat_interleave(64))
    with pytest.raises(EmptyNullSpace, match="no layer has directions both"):
        contour.measure(model, data, Batch(inputs, data.tensors[1]), energy=1.0, merge_energy=1.0)


def test_the_original_must_be_a_point(digits_model: nn.Module, few: Subset, judged: Batch) -> None:
    with pytest.raises(InvalidRequest, match="points=4; give an odd number"):
        contour.measure(digits_model, few, judged, points=4)


def test_the_picture_needs_the_file_alone(exact: dict, tmp_path: Path) -> None:
    contour.draw(json.loads(json.dumps(exact)), tmp_path / "contour.png")
    assert (tmp_path / "contour.png").read_bytes().startswith(b"\x89PNG")


def test_a_flat_loss_can_be_drawn(exact: dict, tmp_path: Path) -> None:
    contour.draw(exact | {"loss": [[0.0] * POINTS] * POINTS}, tmp_path / "flat.png")
    assert (tmp_path / "flat.png").stat().st_size > 1000
