"""Retraining is the recipe on the retained samples, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, Subset, TensorDataset

from unsc.datasets import read_labels
from unsc.errors import InvalidRequest
from unsc.methods import NO_DATA, Problem, apply, find, no_recipe
from unsc.methods.retrain import retrain
from unsc.request import Request

DATA = TensorDataset(torch.arange(12.0).view(6, 2), torch.tensor([0, 1, 2, 0, 1, 2]))


class Recipe:
    """Notes what it is given, and gives the network it was made with."""

    def __init__(self) -> None:
        self.given: list[tuple[Dataset, int]] = []
        self.model = nn.Linear(2, 3)

    def __call__(self, dataset: Dataset, seed: int) -> nn.Module:
        self.given.append((dataset, seed))
        return self.model


@pytest.mark.parametrize(
    ("asked", "gone"), [(Request.for_classes([1], 3), [1, 4]), (Request.for_records(None, 3), [0, 4])]
)
def test_the_recipe_gets_what_stays_and_the_seed(asked: Request, gone: list[int]) -> None:
    """For classes and records alike: every retained sample, no forgotten one, and the problem's seed, once."""
    kept = [i for i in range(6) if i not in gone]
    recipe = Recipe()
    problem = Problem(nn.Linear(2, 3), asked, Subset(DATA, gone), Subset(DATA, kept), recipe, seed=5)
    assert retrain(problem) is recipe.model
    ((dataset, seed),) = recipe.given
    assert seed == 5
    assert torch.equal(torch.stack([x for x, _ in dataset]), DATA.tensors[0][kept])  # type: ignore[attr-defined]
    assert asked.kind == "records" or 1 not in read_labels(dataset).tolist()


def test_digits_are_trained_as_the_recipe_does_it(digits_problem: Problem, digits_retrained: nn.Module) -> None:
    """Bit for bit the network that the recipe itself gives with that seed."""
    result = retrain(replace(digits_problem, seed=1)).state_dict()
    assert all(torch.equal(value, result[name]) for name, value in digits_retrained.state_dict().items())


def test_it_needs_what_stays_and_a_recipe(digits_problem: Problem) -> None:
    for lacking in (replace(digits_problem, retain=NO_DATA), replace(digits_problem, recipe=no_recipe)):
        with pytest.raises(InvalidRequest, match="retrain needs"):
            apply(find("retrain"), lacking)
    assert find("retrain").defaults == {}
