"""Scenarios that memorise: how labels are disturbed, and that both are whole."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import TensorDataset

from unsc.bench.data.shared.split import Split
from unsc.bench.memorising import noisy_digits, of_photographs, with_noise
from unsc.bench.training.protocol import Protocol
from unsc.compare.scenarios import providers
from unsc.datasets import read, size_of
from unsc.errors import InvalidRequest


def test_a_share_of_labels_is_wrong_and_each_other_class_as_likely() -> None:
    labels = torch.arange(5).repeat(4000)
    noisy = with_noise(labels, 0.2, 5, seed=0)
    wrong = noisy != labels
    assert wrong.double().mean().item() == pytest.approx(0.2, abs=0.01)
    away = torch.bincount((noisy - labels)[wrong] % 5, minlength=5)
    assert away[0] == 0 and away[1:].min() > 0.9 * away[1:].max()
    assert torch.equal(noisy, with_noise(labels, 0.2, 5, seed=0))
    assert torch.equal(with_noise(labels, 0.0, 5, seed=0), labels)


def test_noisy_digits_are_whole_and_the_same_each_time() -> None:
    first, again = noisy_digits(), noisy_digits()
    sizes = [size_of(part) for part in (first.train, first.validation, first.test)]
    assert sizes == [958, 240, 599]
    for third in ("train", "validation", "test"):
        assert torch.equal(first.labels(third), again.labels(third))  # type: ignore[arg-type]
    images = [read(part, range(size_of(part))).inputs.flatten(1) for part in (first.train, first.test)]
    assert torch.cdist(*images).min() >= 0 and not (images[0][0] == images[1]).all(dim=1).any()


def test_photographs_are_trained_on_by_a_small_residual_network() -> None:
    """Of made-up pictures: the recipe follows its seed, and the scenario's network takes its weights."""
    generator = torch.Generator().manual_seed(0)
    pictures = TensorDataset(torch.randn(60, 3, 8, 8, generator=generator), torch.arange(60) % 3)
    split = Split("made up", pictures, pictures, ("a", "b", "c"))
    made = of_photographs(split, (30, 15, 20), Protocol(epochs=1, batch_size=16))
    assert [size_of(part) for part in (made.train, made.validation, made.test)] == [30, 15, 20]
    first, again, other = (made.recipe(made.train, seed).state_dict() for seed in (0, 0, 1))
    assert all(map(torch.equal, first.values(), again.values()))
    assert not torch.equal(first["conv1.weight"], other["conv1.weight"])
    made.network().load_state_dict(first)


def test_both_are_offered_by_name_and_have_no_presets() -> None:
    known = providers()
    for name in ("digits-noisy", "records"):
        with pytest.raises(InvalidRequest, match=f"{name}@paper: {name} has no presets"):
            known[name]("paper")
