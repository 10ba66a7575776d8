"""A problem: what is not given, what it takes from its request, and the arguments of 0.2.0."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from unsc.datasets import read
from unsc.errors import InvalidRequest
from unsc.methods import NO_DATA, Problem, no_recipe
from unsc.request import Request

MODEL = nn.Linear(2, 4)
DATA = TensorDataset(torch.randn(3, 2), torch.tensor([0, 1, 1]))


def recipe(dataset: object, seed: int) -> nn.Module:
    return MODEL


def test_what_is_not_given_says_what_to_give() -> None:
    bare = Problem(MODEL, Request.for_classes([1], 4))
    assert not any(map(bare.gives, ("forget", "retain", "recipe")))
    with pytest.raises(InvalidRequest, match=r"give the problem forget=\.\.\. and retain=\.\.\."):
        read(bare.retain, [0])
    with pytest.raises(InvalidRequest, match=r"give the problem recipe=\.\.\."):
        bare.recipe(DATA, 0)


def test_what_is_given_is_there() -> None:
    problem = Problem(MODEL, Request.for_classes([1], 4), forget=DATA, recipe=recipe)
    assert problem.gives("forget") and problem.gives("recipe") and not problem.gives("retain")


def test_masks_are_those_of_the_request() -> None:
    labels = torch.tensor([1, 3])
    for request in (Request.for_classes([1, 3], 4), Request.for_records(None, 4)):
        problem = Problem(MODEL, request)
        assert (problem.num_classes, problem.classes) == (4, request.classes)
        assert torch.equal(problem.kept, request.kept) and torch.equal(problem.removed(labels), request.removed(labels))
    assert Problem(MODEL, Request.for_records(None, 4)).classes == ()


@pytest.mark.parametrize(
    "old",
    [
        lambda: Problem(MODEL, 4, (3, 1), DATA, None, recipe, 5),  # type: ignore[arg-type, call-arg]
        lambda: Problem(MODEL, num_classes=4, classes=(1, 3), forget=DATA, recipe=recipe, seed=5),  # type: ignore[call-arg]
        lambda: Problem(MODEL, 4, classes=(1, 3), forget=DATA, retain=None, recipe=recipe, seed=5),  # type: ignore[arg-type, call-arg]
    ],
    ids=("positions", "names", "both"),
)
def test_the_arguments_of_0_2_0_still_work(old) -> None:
    with pytest.warns(DeprecationWarning, match=r"write Problem\(model, Request.for_classes\(classes, num_classes\)"):
        found = old()
    assert found == Problem(MODEL, Request.for_classes([1, 3], 4), DATA, recipe=recipe, seed=5)
    assert found.retain is NO_DATA


def test_the_records_of_0_2_0_still_work() -> None:
    with pytest.warns(DeprecationWarning, match=r"Request.for_records\(None, num_classes\)") as caught:
        found = Problem(MODEL, 4, None)  # type: ignore[arg-type]
    assert found == Problem(MODEL, Request.for_records(None, 4)) and found.recipe is no_recipe
    assert caught[0].filename == __file__  # the caller's line is shown


def test_the_new_form_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Problem(MODEL, Request.for_classes([1], 4), DATA, seed=3)
        Problem(model=MODEL, request=Request.for_classes([1], 4))
