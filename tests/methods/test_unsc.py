"""Both step rules behind the methods' signature are `unsc.forget` itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, Subset, TensorDataset

import unsc as package
from unsc.methods import NO_DATA, Problem, apply, no_recipe
from unsc.methods.shared.registry import find
from unsc.methods.unsc import unsc
from unsc.methods.unsc_paper import unsc_paper
from unsc.options import Options
from unsc.request import Request
from unsc.steps.paper import PaperRule


@pytest.fixture(scope="module")
def smaller(digits_problem: Problem) -> Problem:
    """Fewer samples, for time: the result needs not be good, only the same."""
    forget, retain = digits_problem.forget, digits_problem.retain
    return replace(
        digits_problem, forget=Subset(forget, range(60)), retain=Subset(retain, range(300)), recipe=no_recipe, seed=3
    )


def indices(problem: Problem) -> tuple[list[int], list[int]]:
    """Where the retained and forgotten samples are in the training set."""

    def of(part: Dataset) -> list[int]:
        assert isinstance(part, Subset) and isinstance(part.dataset, Subset)
        return [part.dataset.indices[i] for i in part.indices]

    return of(problem.retain), of(problem.forget)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        (unsc, {"budget": 3e-4, "max_passes": 2, "stop_mass": 0.05}),
        (unsc_paper, {"lr": 0.02, "energy": 0.9, "merge_energy": 0.95, "max_passes": 2}),
    ],
)
def test_a_class_is_forgotten_as_by_forget(smaller: Problem, digits, method, options: dict) -> None:
    retain, gone = indices(smaller)
    step = {} if method is unsc else {"step": "paper"}
    dataset = Subset(digits.train, retain + gone)
    expected = package.forget(smaller.model, dataset, classes=[3], seed=3, **step, **options).model
    found = method(smaller, **options).model
    assert all(map(torch.equal, found.parameters(), expected.parameters()))
    assert not all(map(torch.equal, found.parameters(), smaller.model.parameters()))


def test_records_are_forgotten_as_by_forget(smaller: Problem, digits) -> None:
    records = replace(smaller, request=Request.for_records(None, 10), forget=Subset(smaller.retain, range(10)))
    records = replace(records, retain=Subset(smaller.retain, range(10, 300)))
    where = indices(smaller)[0]
    dataset = Subset(digits.train, where[10:] + where[:10])
    options = {"seed": 3, "max_passes": 1, "targets": "soft", "least_gain": 0.0}
    expected = package.forget(smaller.model, dataset, indices=range(290, 300), **options).model
    assert all(map(torch.equal, unsc(records, max_passes=1).model.parameters(), expected.parameters()))


def test_what_is_measured_on_the_way_is_noted(smaller: Problem) -> None:
    applied = apply("unsc", smaller, max_passes=1)
    assert 0 < applied.noted["passes"] <= 1 and applied.noted["retained_kl"] >= 0
    assert apply("logit_mask", smaller).noted == {}


def test_defaults_are_those_of_forget() -> None:
    ours = Options().to_dict()
    assert find("unsc").defaults == {name: ours[name] for name in ("budget", "max_passes", "stop_mass", "hidden")}
    papers = Options(PaperRule()).completed(1000).to_dict()
    assert find("unsc_paper").defaults == {
        name: papers[name] for name in ("lr", "energy", "merge_energy", "max_passes", "targets")
    }


def test_no_room_is_a_result() -> None:
    """Retained inputs that fill all directions of the only layer leave the paper's step nothing; ours has a way."""
    torch.manual_seed(0)
    x, y = torch.randn(60, 4), torch.arange(60) % 3
    parts = [TensorDataset(x[part], y[part]) for part in (y == 2, y != 2)]
    problem = Problem(nn.Linear(4, 3), Request.for_classes([2], 3), forget=parts[0], retain=parts[1])
    stuck = apply(find("unsc_paper"), problem, energy=1.0, merge_energy=1.0)
    assert stuck.model is None and "fill every direction" in (stuck.diverged or "")
    assert apply(find("unsc"), problem).model is not None


def test_records_are_forgotten_as_by_forget_with_validation(digits_model: nn.Module, digits) -> None:
    """Bit for bit; the problem's held-out samples are what `validation=` is."""
    gone, stay = list(range(40)), list(range(40, len(digits.train)))
    validation = Subset(digits.test, range(200))
    problem = Problem(
        digits_model,
        Request.for_records(gone, 10),
        Subset(digits.train, gone),
        Subset(digits.train, stay),
        seed=3,
        validation=validation,
    )
    ours = unsc(problem)
    options = {"seed": 3, "least_gain": 0.0, "copies": "ignore"}
    theirs = package.forget(digits_model, digits.train, indices=gone, validation=validation, **options)
    assert all(map(torch.equal, ours.model.state_dict().values(), theirs.model.state_dict().values()))
    without = unsc(replace(problem, validation=NO_DATA))
    assert not all(map(torch.equal, ours.model.state_dict().values(), without.model.state_dict().values()))
