"""Policies: strict reading, sane defaults, and verdicts that say by how much and what to try."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unsc.errors import UnscError
from unsc.release.policy import CHECKS, LIMITS, Figure, Policy

GOOD = {"forget_acc": Figure(0.5), "retained_kl": Figure(0.01)}


def load(folder: Path, content: str | bytes) -> Policy:
    path = folder / "policy.toml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return Policy.load(path)


def test_an_empty_policy_has_the_defaults(tmp_path: Path) -> None:
    assert load(tmp_path, "") == Policy() and Policy().limits == {check.name: check.limit for check in CHECKS}
    assert not Policy().rollback


def test_a_policy_is_what_it_says(tmp_path: Path) -> None:
    policy = load(
        tmp_path,
        "[gate]\nforget_acc = 2\nattack = inf\nmargin = 4\nrequired = ['attack']\n[rollback]\nallowed = true\n",
    )
    assert policy == Policy({**LIMITS, "forget_acc": 2.0, "attack": math.inf}, 4.0, ("attack",), True)
    assert Policy.from_dict(policy.to_dict()) == policy


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[gate]\nforget_ac = 1", "did you mean forget_acc"),
        ("[gates]", "did you mean gate"),
        ("gate = 3", "must be a table"),
        ("[gate]\nforget_acc = -1", "at least 0"),
        ("[gate]\nforget_acc = nan", "at least 0"),
        ("[gate]\nforget_acc = true", "at least 0"),
        ("[gate]\nforget_acc = '1'", "at least 0"),
        ("[gate]\nmargin = 0.5", "at least 1"),
        ("[gate]\nmargin = nan", "at least 1"),
        ("[gate]\nrequired = 'attack'", "a list of checks"),
        ("[gate]\nrequired = ['atack']", "did you mean attack"),
        ("[rollback]\nallowed = 1", "true or false"),
        ("[gate", "no TOML"),
        (b"\xff", "no TOML"),
        (b"#" * 70_000, "65536 bytes"),
    ],
)
def test_what_is_refused(tmp_path: Path, content: str | bytes, said: str) -> None:
    with pytest.raises(UnscError, match=said):
        load(tmp_path, content)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_within_the_limit_is_passed(value: float) -> None:
    verdicts = Policy().judge({**GOOD, "forget_acc": Figure(value)}, "classes")
    assert all(v.passed and not v.advice for v in verdicts) and [v.check for v in verdicts] == [*GOOD]


@pytest.mark.parametrize("value", [1.0001, math.inf, math.nan])
def test_beyond_the_limit_is_not(value: float) -> None:
    verdict = Policy().judge({**GOOD, "forget_acc": Figure(value)}, "classes")[0]
    assert not verdict.passed and verdict.limit == 1 and f"{value:.4g} %" in verdict.advice
    assert "too much" in verdict.advice and "passes" in verdict.advice


def test_a_predicted_figure_has_a_wider_margin() -> None:
    for value, passed in ((0.024, True), (0.026, False)):
        figures = {**GOOD, "retained_kl": Figure(value, source="predicted")}
        verdict = Policy().judge(figures, "classes")[-1]
        assert (verdict.passed, verdict.limit, verdict.source) == (passed, 0.025, "predicted")
        assert Policy().judge({**GOOD, "retained_kl": Figure(value)}, "classes")[-1].passed


def test_what_should_have_been_measured_and_was_not_fails() -> None:
    verdicts = Policy().judge({"retained_kl": Figure(0.0)}, "classes")
    assert [(v.check, v.measured, v.passed) for v in verdicts] == [
        ("forget_acc", None, False),
        ("retained_kl", 0.0, True),
    ]
    assert "canaries" in verdicts[0].advice


def test_classes_and_records_are_judged_by_their_own() -> None:
    figures = {"forget_acc": Figure(100.0), "record_distance": Figure(100.0), "retained_kl": Figure(0.0)}
    assert [v.check for v in Policy().judge(figures, "classes") if not v.passed] == ["forget_acc"]
    assert [v.check for v in Policy().judge(figures, "records") if not v.passed] == ["record_distance"]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)
names = st.sampled_from([*LIMITS, "margin", "required", "allowed", "gate", "rollback"])


@settings(deadline=None)
@given(st.dictionaries(names, st.dictionaries(names, values, max_size=4) | values, max_size=3))
def test_whatever_a_policy_holds_it_is_a_policy_or_a_message(content: dict) -> None:
    try:
        policy = Policy.from_dict(content)
    except UnscError as e:
        assert str(e)
        return
    assert policy.margin >= 1 and all(limit >= 0 for limit in policy.limits.values())
    assert Policy.from_dict(policy.to_dict()) == policy


@settings(deadline=None)
@given(st.binary(max_size=60) | st.text(alphabet="[]gate=\n1.\"'{}#inf", max_size=40).map(str.encode))
def test_whatever_a_file_holds_there_is_no_traceback(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    try:
        load(tmp_path_factory.getbasetemp(), content)
    except UnscError as e:
        assert str(e)
