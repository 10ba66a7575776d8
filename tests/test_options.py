"""Options: bad values are refused by name, and defaults suit the request."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from unsc.errors import InvalidRequest
from unsc.options import Options
from unsc.steps.budgeted import BudgetedRule
from unsc.steps.paper import PaperRule


@pytest.mark.parametrize(
    ("name", "hint"),
    [("stepp", "step"), ("batchsize", "batch_size"), ("learning_rate", "options are step, "), ("maxkl", "max_kl")],
)
def test_an_unknown_option_suggests_the_nearest(name: str, hint: str) -> None:
    """Or lists all, if none is near."""
    with pytest.raises(InvalidRequest, match=rf"no option '{name}'; (did you mean )?{hint}"):
        Options.from_keywords({name: 1})


@pytest.mark.parametrize(
    ("name", "values", "allowed"),
    [
        ("step", ["adam", None, 1], "'budgeted' or 'paper'"),
        ("targets", ["nearest", 1], "'soft', 'hard', 'random', 'unseen', 'lowered', 'away' or 'relabel'"),
        ("samples_per_class", [1, 0, -3, 2.5, "9", True, None], "at least 2"),
        ("batch_size", [0, -1, 1.5, "8", True], "at least 1"),
        ("max_passes", [0, -1, 0.5, "8"], "at least 1"),
        ("chunk_bytes", [0, -1, 1e6, None], "at least 1"),
        ("max_kl", [0, -1.0, float("nan"), "1"], "above 0"),
        ("budget", [0, -1.0, float("nan"), None, "x"], "above 0"),
        ("lr", [0.0, -1.0, None], "above 0"),
        ("forget_check_share", [-0.1, 0.6, float("nan"), "0.1", None], "0 to 0.5"),
        ("stop_mass", [-0.1, 1.1, None], "0 to 1"),
        ("seed", [-1, 0.5, None, "0"], "at least 0"),
    ],
)
def test_a_bad_value_is_refused(name: str, values: list[Any], allowed: str) -> None:
    """With its name, the value itself, and what is allowed."""
    for value in values:
        with pytest.raises(InvalidRequest) as caught:
            Options.from_keywords({name: value} | ({"step": "paper"} if name == "lr" else {}))
        assert f"{name}={value!r}" in str(caught.value)
        assert allowed in str(caught.value)


def test_good_values_are_taken() -> None:
    options = Options.from_keywords(
        {"step": "paper", "lr": 1, "seed": 3, "forget_check_share": 0, "energy": {"a": 0.5}}
    )
    assert options.step == PaperRule(lr=1, energy={"a": 0.5})
    assert (options.seed, options.forget_check_share) == (3, 0)


@pytest.mark.parametrize("forgotten", [1, 17, 100, 1000, 6000, 50000])
def test_defaults_suit_the_number_of_samples(forgotten: int) -> None:
    """A budgeted run has two passes, and steps enough; nothing is left undecided."""
    options = Options().completed(forgotten)
    assert 16 <= options.batch_size <= 128
    steps = -(-forgotten // options.batch_size) * options.max_passes
    assert options.max_passes >= 2
    assert steps >= 32 or options.max_passes >= 64
    assert (options.targets, options.max_kl) == ("soft", 0.1)


def test_the_papers_step_has_its_own_defaults() -> None:
    options = Options(PaperRule()).completed(1000)
    assert (options.targets, options.max_passes, options.max_kl) == ("hard", 25, 1.0)


@pytest.mark.parametrize("step", ["budgeted", "paper"])
def test_what_the_user_gives_is_kept(step: Any) -> None:
    given = {"targets": "soft", "batch_size": 7, "max_passes": 3, "max_kl": 0.25}
    options = Options.from_keywords(given | {"step": step}).completed(999)
    assert {name: getattr(options, name) for name in given} == given
    assert options.completed(5) == options


def test_options_can_be_written_as_json() -> None:
    rule = PaperRule(optimizer=torch.optim.Adam, energy={"a": 0.5})
    back = json.loads(json.dumps(Options(rule, parameters=("a",)).completed(100).to_dict()))
    assert "Adam" in back["optimizer"]
    assert (back["energy"], back["parameters"], back["step"]) == ({"a": 0.5}, ["a"], "paper")
    assert json.loads(json.dumps(Options().to_dict()))["budget"] == BudgetedRule().budget


def test_a_rule_may_be_passed_as_it_is() -> None:
    """Its own options then belong to it, and not beside it."""
    assert Options.from_keywords({"step": PaperRule(lr=0.5)}).step == PaperRule(lr=0.5)
    with pytest.raises(InvalidRequest, match="lr has no effect"):
        Options.from_keywords({"step": PaperRule(), "lr": 0.5})


def test_an_option_of_before_goes_by_its_new_name() -> None:
    with pytest.warns(DeprecationWarning, match="held_out is called forget_check_share"):
        assert Options.from_keywords({"held_out": 0.3}).forget_check_share == 0.3
