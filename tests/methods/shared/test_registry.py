"""Methods by name, what they need, and how they end."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from unsc.errors import Diverged, InvalidRequest
from unsc.methods import NO_DATA, Problem, Range, apply, method
from unsc.methods.shared.registry import Method, find, split_names
from unsc.request import Request


def _made(run, **keywords) -> Method:
    method(**keywords)(run)
    return find(run.__name__)


def test_a_decorated_function_is_a_method(registered, digits_problem: Problem) -> None:
    def mine(problem: Problem, *, lr: float = 0.5) -> nn.Module:
        """Nothing at all."""
        return problem.copy()

    made = _made(mine, needs=("forget",), search={"lr": Range(0.1, 1.0)})
    assert made.defaults == {"lr": 0.5} and made.about == "Nothing at all."
    assert find("mine") is made
    result = apply(made, digits_problem, lr=0.25)
    assert result.settings == {"lr": 0.25} and result.diverged is None and result.cost.seconds > 0
    assert result.model is not None
    assert all(map(torch.equal, result.model.parameters(), digits_problem.model.parameters()))


def test_missing_data_is_refused_with_the_method_and_the_need(registered, digits_problem: Problem) -> None:
    def wants(problem: Problem) -> nn.Module:
        return problem.copy()

    made = _made(wants, needs=("retain",), kinds=("classes",))
    with pytest.raises(InvalidRequest, match="wants needs retained training samples"):
        apply(made, replace(digits_problem, retain=NO_DATA))
    with pytest.raises(InvalidRequest, match="forgets classes only, not records"):
        apply(made, replace(digits_problem, request=Request.for_records(None, 10)))


def test_unknown_names_suggest_the_nearest(registered, digits_problem: Problem) -> None:
    def some_method(problem: Problem, *, rate: float = 1.0) -> nn.Module:
        return problem.copy()

    made = _made(some_method, needs=())
    with pytest.raises(InvalidRequest, match="did you mean some_method"):
        find("some_metod")
    with pytest.raises(InvalidRequest, match="did you mean rate"):
        apply(made, digits_problem, rat=1.0)


def test_divergence_is_a_result(registered, digits_problem: Problem) -> None:
    def explodes(problem: Problem) -> nn.Module:
        raise Diverged("the loss became nan at step 7")

    def nan_weights(problem: Problem) -> nn.Module:
        model = problem.copy()
        with torch.no_grad():
            next(model.parameters()).fill_(torch.nan)
        return model

    def collapses(problem: Problem) -> nn.Module:
        model = problem.copy()
        with torch.no_grad():
            *_, weight, bias = model.parameters()
            weight.zero_()
            bias.copy_(torch.eye(10)[7])
        return model

    lost = apply(_made(explodes, needs=()), digits_problem)
    assert lost.model is None and "step 7" in (lost.diverged or "")
    spoilt = apply(_made(nan_weights, needs=()), digits_problem)
    assert spoilt.model is None and "NaN" in (spoilt.diverged or "")
    flat = apply(_made(collapses, needs=()), digits_problem)
    assert flat.model is not None and "classified as 7" in (flat.diverged or "")


def test_a_setting_without_default_is_refused(registered) -> None:
    def bare(problem: Problem, *, lr: float) -> nn.Module:
        return problem.copy()

    with pytest.raises(InvalidRequest, match="needs a default"):
        method(needs=())(bare)


def test_settings_in_brackets_are_other_defaults_and_not_tuned(registered, digits_problem: Problem) -> None:
    def shifts(problem: Problem, *, by: float = 0.5, how: str = "up", times: int = 1) -> nn.Module:
        """Shift the last bias."""
        model = problem.copy()
        with torch.no_grad():
            list(model.parameters())[-1].add_(by * times * (1 if how == "up" else -1))
        return model

    _made(shifts, needs=(), search={"by": Range(0.1, 1.0), "times": Range(1, 3)})
    found = find("shifts[by=0.25, how=down]")
    assert found.name == "shifts[by=0.25, how=down]" and found.about == "Shift the last bias."
    assert found.defaults == {"by": 0.25, "how": "down", "times": 1} and set(found.search) == {"times"}
    made = apply(found, digits_problem, times=2).model
    assert made is not None
    moved = list(made.parameters())[-1]
    assert torch.allclose(moved, list(digits_problem.model.parameters())[-1] - 0.5)
    assert find("shifts").defaults["by"] == 0.5


@pytest.mark.parametrize("name", ["shifts[by]", "shifts[by=1", "shifts[bye=1]", "shift[by=1]"])
def test_brackets_that_make_no_sense_are_refused(name: str, registered) -> None:
    def shifts(problem: Problem, *, by: float = 0.5) -> nn.Module:
        return problem.copy()

    _made(shifts, needs=())
    with pytest.raises(InvalidRequest, match=r"write name\[|did you mean"):
        find(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("unsc[budget=abc]", "budget='abc'; give a number, such as 0.0004"),
        ("finetune[epochs=1.5]", r"epochs=1\.5; give a whole number, such as"),
        ("finetune[epochs=True]", "epochs=True; give a whole number"),
        ("unsc_paper[targets=1]", "targets=1; give a word, such as 'hard'"),
    ],
)
def test_a_setting_takes_what_its_default_is(name: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        find(name)
    assert find("finetune[lr=1]").defaults["lr"] == 1  # a whole number is a number
    assert find("unsc[max_passes=3]").defaults["max_passes"] == 3  # nothing by default: anything goes


def test_commas_in_brackets_do_not_part_names() -> None:
    assert split_names("a, b[x=1, y=2],c") == ["a", "b[x=1, y=2]", "c"]


def test_a_method_may_be_given_by_name_or_as_the_function(registered, digits_problem: Problem) -> None:
    def as_it_was(problem: Problem, *, lr: float = 1.0) -> nn.Module:
        return problem.copy()

    method(needs=())(as_it_was)
    for given in ("as_it_was", as_it_was, find("as_it_was"), "as_it_was[lr=2.0]"):
        assert apply(given, digits_problem).model is not None
    assert apply("as_it_was[lr=2.0]", digits_problem).settings == {"lr": 2.0}
    with pytest.raises(InvalidRequest, match="no method"):
        apply(len, digits_problem)  # type: ignore[arg-type]
