"""Samples of each class: how many, which, and by whose chance."""

from __future__ import annotations

import torch

from unsc.methods.shared.sampling import some_of_each_class

LABELS = torch.tensor([5] * 20 + [1] * 3 + [2] * 20)[torch.randperm(43, generator=torch.Generator().manual_seed(9))]


def drawn(limit: int, seed: int = 0) -> torch.Tensor:
    return some_of_each_class(LABELS, limit, torch.Generator().manual_seed(seed))


def test_as_many_of_each_class_as_there_are_up_to_the_limit() -> None:
    chosen = drawn(7)
    assert LABELS[chosen].tolist() == [1] * 3 + [2] * 7 + [5] * 7
    assert len(chosen.unique()) == 17
    assert drawn(10**6).sort().values.tolist() == list(range(43))


def test_the_generator_decides_which() -> None:
    assert torch.equal(drawn(7), drawn(7))
    assert not torch.equal(drawn(7), drawn(7, seed=1))
