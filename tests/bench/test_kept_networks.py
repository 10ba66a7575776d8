"""Networks that are kept with the results: tables start from them, and others are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.utils.data import TensorDataset

from unsc.bench.data.shared.image_data import DATA, ImageData
from unsc.bench.data.shared.split import Split
from unsc.bench.kept_networks import keep_networks, take_networks
from unsc.bench.presets import cpu
from unsc.bench.scenarios import preset_scenario
from unsc.compare.networks import Networks
from unsc.compare.plan import Training
from unsc.errors import InvalidData, InvalidRequest
from unsc.storage.files import load_tensors


def blocks(folder: Path) -> Split:
    """8x8 pixels, bright in the class's quarter."""
    labels = torch.arange(4).repeat(30)
    images = torch.zeros(120, 1, 8, 8)
    for i, k in enumerate(labels.tolist()):
        images[i, 0, 4 * (k // 2) : 4 * (k // 2) + 4, 4 * (k % 2) : 4 * (k % 2) + 4] = 1
    noisy = images + 0.3 * torch.randn(images.shape, generator=torch.Generator().manual_seed(0))
    return Split("blocks", TensorDataset(noisy, labels), TensorDataset(noisy[:40], labels[:40]), tuple("abcd"))


BLOCKS = ImageData(
    "blocks", blocks, num_classes=4, presets={"cpu": cpu("digits-cnn", epochs=4, width=0.5)}, forget=(2,)
)


@pytest.fixture
def networks(tmp_path: Path) -> Iterator[Networks]:
    """A network of all classes, and one without class 2."""
    with DATA.temporarily(BLOCKS):
        made = Networks(tmp_path / "models", "blocks", preset_scenario(BLOCKS, None, tmp_path))
        for training in (Training(0), Training(1000, (2,))):
            made.train(training)
        yield made


def test_what_was_kept_is_taken_up_instead_of_training(networks: Networks, tmp_path: Path) -> None:
    kept = keep_networks(networks, tmp_path / "kept")
    assert [p.name for p in kept] == ["full-0.safetensors", "without-2-1000.safetensors"]
    elsewhere = replace(networks, folder=tmp_path / "elsewhere")
    assert len(take_networks("blocks", tmp_path / "kept", elsewhere.folder)) == 2
    for training in (Training(0), Training(1000, (2,))):
        (model, cost), (again, known) = networks.load(training), elsewhere.load(training)
        assert cost == known and all(map(torch.equal, model.state_dict().values(), again.state_dict().values()))
    assert take_networks("blocks", tmp_path / "kept", elsewhere.folder) == []  # they are there


def test_it_says_how_a_network_came_about_and_how_good_it_is(networks: Networks, tmp_path: Path) -> None:
    """Accuracy is of the classes that it was trained on: without class 2 a quarter of the test samples is left out."""
    for path, classes in zip(keep_networks(networks, tmp_path / "kept"), ((0, 1, 2, 3), (0, 1, 3)), strict=True):
        _, about = load_tensors(path)
        assert about["trained"]["network"] == {"name": "digits-cnn", "width": 0.5}
        assert about["trained"]["protocol"]["epochs"] == 4 and about["trained"]["protocol"]["precision"] == "float32"
        assert about["versions"]["unsc"] and about["data"] == "blocks"
        model, _ = networks.load(Training(0) if 2 in classes else Training(1000, (2,)))
        images, labels = blocks(tmp_path).test.tensors
        chosen = torch.isin(labels, torch.tensor(classes))
        right = (model(images[chosen]).argmax(dim=1) == labels[chosen]).float().mean().item()
        assert about["test_acc"] == pytest.approx(100 * right)


def test_networks_that_were_trained_otherwise_are_refused(networks: Networks, tmp_path: Path) -> None:
    """When they are kept, and when they are used."""
    keep_networks(networks, tmp_path / "kept")
    longer = preset_scenario(replace(BLOCKS, presets={"cpu": cpu("digits-cnn", epochs=5, width=0.5)}), None, tmp_path)
    taken = replace(networks, folder=tmp_path / "elsewhere", scenario=longer)
    take_networks("blocks", tmp_path / "kept", taken.folder)
    for attempt in (lambda: taken.load(Training(0)), lambda: keep_networks(taken, tmp_path / "again")):
        with pytest.raises(InvalidData, match=r"was trained by .*'epochs': 4.*, and blocks is now .*'epochs': 5"):
            attempt()
    assert not (tmp_path / "again").exists()


def test_empty_folders_are_refused(networks: Networks, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"there are no trained networks in .*; make a table first"):
        keep_networks(replace(networks, folder=tmp_path / "none"), tmp_path / "kept")
    with pytest.raises(InvalidRequest, match=r"there is no folder .*blocks with trained networks"):
        take_networks("blocks", tmp_path / "kept", networks.folder)
