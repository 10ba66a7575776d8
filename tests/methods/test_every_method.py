"""What every method has in common."""

from __future__ import annotations

import pytest
import torch

from unsc.errors import InvalidRequest
from unsc.methods import Choice, Problem, Range, apply, methods

METHODS = methods()
ASKED = {
    "retrain", "finetune", "gradient_ascent", "neggrad_plus", "random_label", "boundary_shrink", "boundary_expand",
    "fisher", "salun", "l1_sparse", "scrub", "ssd", "svd", "bad_teacher", "unsir", "delete", "unsc_paper", "unsc",
    "relabel", "logit_mask", "bias_shift", "head_only",
}  # fmt: skip


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
    bare = Problem(digits_problem.model, 10, (3,), seed=1)
    if method.needs:
        with pytest.raises(InvalidRequest, match=f"{name} needs"):
            apply(method, bare)
    else:
        assert apply(method, bare).model is not None


@pytest.mark.parametrize("name", sorted(ASKED - {"retrain"}))
def test_the_users_model_is_left_alone(name: str, digits_problem: Problem) -> None:
    """Not a bit of weights or statistics, and not the mode."""
    model = digits_problem.model
    before = {k: v.clone() for k, v in model.state_dict().items()}
    short = {"epochs": 1} if "epochs" in METHODS[name].defaults else {}
    apply(METHODS[name], digits_problem, **short)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items()) and not model.training
