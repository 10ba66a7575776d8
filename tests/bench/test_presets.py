"""The presets are the paper's table, and a validation split is one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset

from unsc.bench.data.shared.image_data import DATA
from unsc.bench.data.shared.split import Split
from unsc.bench.presets import split_validation
from unsc.bench.training.protocol import PAPER, Protocol
from unsc.errors import InvalidRequest


@pytest.mark.parametrize(
    ("dataset", "network"),
    [("fashion-mnist", "alexnet"), ("svhn", "vgg11"), ("cifar-10", "allcnn"), ("cifar-100", "resnet18")],
)
def test_the_papers_table(dataset: str, network: str) -> None:
    found = DATA.find(dataset).preset("paper")
    assert found.network == DATA.find(dataset).preset().network == network
    p = found.protocol
    assert (p.epochs, p.batch_size, p.lr, p.weight_decay, p.momentum) == (200, 512, 0.1, 5e-4, 0.9)
    assert (p.milestones, p.factor, p.patience) == ((60, 120, 160), 0.2, 30)


def test_the_papers_recipe_drawn_together() -> None:
    """In its last quarter, say, a run has the learning rate that the paper's has in its last quarter."""
    data = DATA.find("fashion-mnist")
    short, published = data.preset("recipe"), data.preset("paper")
    assert (short.network, short.width, short.options) == (published.network, published.width, published.options)
    for share in (0.0, 0.29, 0.31, 0.59, 0.61, 0.79, 0.81, 0.99):
        rates = [x.protocol.rate(int(share * x.protocol.epochs * 100), 100) for x in (short, published)]
        assert rates[0] == rates[1]
    changed = {"epochs": 200, "milestones": PAPER.milestones, "patience": 30, "precision": "float32"}
    assert replace(short.protocol, **changed) == published.protocol


def test_learning_rates_by_hand() -> None:
    rates = [PAPER.rate(7 * epoch + 6, 7) for epoch in (0, 59, 60, 119, 120, 160, 199)]
    assert rates == pytest.approx([0.1, 0.1, 0.02, 0.02, 0.004, 0.0008, 0.0008])
    cycle = Protocol(epochs=10, lr=0.5, schedule="one-cycle")
    assert cycle.rate(0, 10) == pytest.approx(0.02)
    assert cycle.rate(15, 10) == pytest.approx(0.26)
    assert cycle.rate(30, 10) == pytest.approx(0.5)
    assert cycle.rate(65, 10) == pytest.approx(0.25)
    assert 0 < cycle.rate(99, 10) < 1e-3


@pytest.mark.parametrize("name", ["paper", "cpu"])
def test_every_preset_builds_its_network(name: str) -> None:
    """For the data's classes and channels, by the seed alone."""
    for dataset, data in DATA.all().items():
        if dataset == "digits" or (name == "paper" and dataset != "cifar-10"):
            continue  # the full networks take long to draw, and are built just the same
        found = data.preset(name)
        channels = 1 if dataset == "fashion-mnist" else 3
        images = TensorDataset(torch.randn(2, channels, 32, 32), torch.tensor([0, 1]))
        split = Split(dataset, images, images, tuple("abcde"))
        before = torch.get_rng_state()
        model, same, other = (found.build(split, seed=s).eval() for s in (3, 3, 4))
        assert torch.equal(torch.get_rng_state(), before)
        assert model(images.tensors[0]).shape == (2, 5)
        assert all(map(torch.equal, model.parameters(), same.parameters()))
        assert not all(map(torch.equal, model.parameters(), other.parameters()))


def test_unknown_presets_and_bad_protocols_are_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"no preset of cifar-10 'gpu'.* are paper, cpu"):
        DATA.find("cifar-10").preset("gpu")
    with pytest.raises(InvalidRequest, match=r"data set 'cifar10'; did you mean cifar-10\?"):
        DATA.find("cifar10")
    wrong: tuple[dict[str, Any], ...] = (
        {"epochs": 0},
        {"epochs": 1, "lr": float("nan")},
        {"epochs": 1, "batch_size": 1},
        {"epochs": 1, "momentum": 1.0},
        {"epochs": 1, "weight_decay": -1.0},
        {"epochs": 1, "patience": 0},
        {"epochs": 1, "schedule": "cosine"},
        {"epochs": 1, "augmentation": "mixup"},
    )
    for bad in wrong:
        with pytest.raises(InvalidRequest, match=rf"^{list(bad)[-1]} is "):
            Protocol(**bad)


def test_a_validation_split() -> None:
    """A tenth of each class, nothing twice, nothing lost, by the seed alone."""
    labels = torch.tensor([0] * 100 + [1] * 40 + [2] * 60)
    data = TensorDataset(torch.arange(200.0)[:, None], labels)
    train, validation = split_validation(data, seed=0)
    assert sorted([*train.indices, *validation.indices]) == list(range(200))
    assert labels[validation.indices].bincount().tolist() == [10, 4, 6]
    assert validation.indices == split_validation(data, seed=0)[1].indices
    assert validation.indices != split_validation(data, seed=1)[1].indices
    assert len(split_validation(train, 0.5, seed=0)[1]) == 45 + 18 + 27
    for share in (0.0, 1.0, -1, float("nan")):
        with pytest.raises(InvalidRequest, match="between 0 and 1"):
            split_validation(data, share, seed=0)
    with pytest.raises(InvalidRequest, match="leaves one of the two parts empty"):
        split_validation(TensorDataset(labels[:3, None], labels[:3]), 0.1, seed=0)
