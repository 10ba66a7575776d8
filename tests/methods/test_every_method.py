"""What every method has in common."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch.utils.data import Subset

from unsc.batches import Batch
from unsc.bench.datasets import Split
from unsc.datasets import read, size_of
from unsc.errors import InvalidRequest
from unsc.logits import accuracy
from unsc.methods import Choice, Problem, Range, apply, methods
from unsc.request import Request

METHODS = methods()
ASKED = {
    "retrain", "finetune", "gradient_ascent", "neggrad_plus", "random_label", "boundary_shrink", "boundary_expand",
    "fisher", "salun", "l1_sparse", "scrub", "ssd", "svd", "bad_teacher", "unsir", "delete", "unsc_paper", "unsc",
    "relabel", "regun", "msg", "ct", "logit_mask", "bias_shift", "head_only",
}  # fmt: skip
DISTURBING = {"msg", "ct"}
"""Those that change weights before any step."""
DETERMINED = {"logit_mask", "bias_shift", "ssd"}
"""Those that draw nothing."""
IN_EPOCHS = [name for name in sorted(ASKED - {"retrain"}) if {"lr", "epochs"} <= METHODS[name].defaults.keys()]


def problem_for(name: str, of_class: Problem) -> Problem:
    """The problem of the digits, or, for a method that forgets records alone, one of 60 records."""
    if "classes" in METHODS[name].kinds:
        return of_class
    digits = of_class.retain.dataset  # type: ignore[union-attr]
    order = torch.randperm(size_of(digits), generator=torch.Generator().manual_seed(0)).tolist()
    forget, validation, retain = (Subset(digits, part) for part in (order[:60], order[60:200], order[200:]))
    request = Request.for_records(None, 10)
    return replace(of_class, request=request, forget=forget, retain=retain, validation=validation)


def test_all_are_there_and_three_are_controls() -> None:
    assert set(METHODS) >= ASKED
    assert {name for name in ASKED if METHODS[name].control} == {"logit_mask", "bias_shift", "head_only"}


@pytest.mark.parametrize("name", sorted(ASKED))
def test_a_docstring_says_source_mechanism_data_settings_and_departures(name: str) -> None:
    about = METHODS[name].about
    places = [about.find(label) for label in ("Mechanism:", "Data:", "Published:", "Departures:")]
    assert places[0] > 0 and places == sorted(places)


@pytest.mark.parametrize("name", sorted(ASKED))
def test_the_default_of_a_searched_setting_lies_where_it_is_searched(name: str) -> None:
    """Otherwise the published settings could never be chosen."""
    method = METHODS[name]
    for setting, space in method.search.items():
        default = method.defaults[setting]
        if isinstance(space, Range):
            assert space.low <= default <= space.high, setting
        else:
            assert isinstance(space, Choice) and default in space.values, setting


@pytest.mark.parametrize("name", sorted(ASKED))
def test_what_a_method_needs_is_asked_for(name: str, digits_problem: Problem) -> None:
    """Without it there is a message; and nothing is needed that is not said to be."""
    method = METHODS[name]
    bare = Problem(digits_problem.model, problem_for(name, digits_problem).request, seed=1)
    if method.needs:
        with pytest.raises(InvalidRequest, match=f"{name} needs"):
            apply(method, bare)
    else:
        assert apply(method, bare).model is not None


@pytest.mark.parametrize("name", sorted(ASKED - {"retrain"}))
def test_the_users_model_is_left_alone_and_the_seed_decides(name: str, digits_problem: Problem) -> None:
    """Not a bit of weights or statistics is changed, nor the mode; the same seed gives the same bits."""
    problem = problem_for(name, digits_problem)
    model, retain = problem.model, problem.retain
    before = {k: v.clone() for k, v in model.state_dict().items()}
    some = replace(problem, retain=Subset(retain, range(0, size_of(retain), 3)))
    few = {"epochs": 1, "batch_size": 32, "samples": 64, "impair_lr": 1e-3}  # batches of 32 diverge at a higher rate
    short = {k: v for k, v in few.items() if k in METHODS[name].defaults}
    results = [apply(METHODS[name], replace(some, seed=seed), **short).model for seed in (1, 1, 2)]
    first, again, other = (list(m.state_dict().values()) for m in results)  # type: ignore[union-attr]
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items()) and not model.training
    assert all(map(torch.equal, first, again))
    assert all(map(torch.equal, first, other)) == (name in DETERMINED)


@pytest.mark.parametrize("name", [name for name in IN_EPOCHS if name not in DISTURBING])
@pytest.mark.parametrize("settings", [{"lr": 0.0, "epochs": 1}, {"lr": 0.1, "epochs": 0}], ids=("rate", "epochs"))
def test_without_steps_nothing_changes(name: str, settings: dict[str, float], digits_problem: Problem) -> None:
    model = apply(METHODS[name], problem_for(name, digits_problem), **settings).model
    assert model is not None
    assert all(map(torch.equal, model.state_dict().values(), digits_problem.model.state_dict().values()))


@pytest.mark.parametrize(
    ("name", "settings", "least", "times"),
    [
        ("bad_teacher", {"lr": 0.02, "epochs": 5, "batch_size": 64}, 0.1, 1.2),
        ("boundary_shrink", {"lr": 3e-4, "epochs": 5}, 0.005, 1.2),
        ("delete", {"lr": 3e-4, "epochs": 5}, 0.005, 1.2),
        ("scrub", {"lr": 0.01, "epochs": 2}, 0.005, 2),
    ],
)
def test_records_are_forgotten_more_than_others(
    name: str, settings: dict[str, float], least: float, times: float, digits_problem: Problem, digits: Split
) -> None:
    """Their loss rises by at least so much, and so many times as much as that of the others."""
    order = torch.randperm(len(digits.train), generator=torch.Generator().manual_seed(0)).tolist()
    forget, retain = Subset(digits.train, order[:60]), Subset(digits.train, order[60:])
    problem = replace(digits_problem, request=Request.for_records(None, 10), forget=forget, retain=retain)
    model = apply(METHODS[name], problem, **settings).model
    assert model is not None
    gone, kept = read(forget, range(60)), read(retain, range(len(retain)))

    def rise(batch: Batch) -> float:
        with torch.no_grad():
            after, before = (F.cross_entropy(m(batch.inputs), batch.labels) for m in (model, problem.model))
        return (after - before).item()

    assert rise(gone) > max(least, times * rise(kept))
    assert accuracy(model, kept) > 95
