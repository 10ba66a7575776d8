"""What a result says of itself is what was measured."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import unsc
from unsc.batches import Batch
from unsc.bench.datasets import Split
from unsc.bench.networks import digits_cnn
from unsc.duplicates import Copies
from unsc.errors import NotForgotten, NotForgottenWarning
from unsc.looks import Known, Look
from unsc.measures import RecordMetrics
from unsc.promises import promise_on_records
from unsc.request import Request
from unsc.targets import Away, Lowered, Scores, TargetRule, Unseen, scores_of
from unsc.verdict import Status, judge, judge_records, was_known


@pytest.mark.parametrize(("hits", "status"), [(0, "forgotten"), (2, "forgotten"), (3, "not forgotten")])
def test_a_percent_may_remain(hits: int, status: str) -> None:
    assert judge(True, Known(hits, 200)) == status
    assert judge(False, Known(hits, 200)) == "not known"


def test_what_was_not_reached_is_not_promised(digits: Split, digits_model: nn.Module, tmp_path: Path) -> None:
    """A bound so tight that nothing can be forgotten: the promise, the warning, the repr and the files say so."""
    with pytest.warns(NotForgottenWarning, match="Not forgotten: .* held-out samples of class 3"):
        result = unsc.forget(digits_model, digits.train, classes=[3], max_kl=1e-6)
    assert not result.ok
    assert result.metrics.forget_acc > 50
    assert result.metrics.promise.startswith("Not forgotten")
    assert "max_kl" in result.metrics.promise
    assert "not forgotten" in repr(result)
    saved = json.loads((result.save(tmp_path / "run") / "metrics.json").read_text())
    assert (saved["status"], saved["promise"]) == ("not forgotten", result.metrics.promise)


def test_strictly_it_is_an_error(digits: Split, digits_model: nn.Module) -> None:
    with pytest.raises(NotForgotten, match="Do not release"):
        unsc.forget(digits_model, digits.train, classes=[3], max_kl=1e-6, strict=True)


def test_what_was_reached_is_said_without_a_warning(digits: Split, digits_model: nn.Module) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = unsc.forget(digits_model, digits.train, classes=[3], strict=True)
    assert result.ok
    assert result.metrics.promise.startswith("Forgotten: 0 of")
    assert result.metrics.forget_acc_before > 90


def test_a_network_that_never_knew_the_class_is_said_to_be_that(digits: Split, digits_model: nn.Module) -> None:
    """Untrained, or asked a second time: neither is called forgotten."""
    torch.manual_seed(0)
    untrained = digits_cnn().eval()
    once = unsc.forget(digits_model, digits.train, classes=[3])
    for model in (untrained, once.model):
        with pytest.warns(NotForgottenWarning, match="did not know class 3 to begin with"):
            result = unsc.forget(model, digits.train, classes=[3], max_passes=1)
        assert (result.ok, result.metrics.status) == (False, "not known")


def test_knowing_is_more_than_calling_everything_so() -> None:
    """A network that gives all samples one class does not know that class."""
    constant = nn.Linear(2, 3)
    nn.init.zeros_(constant.weight)
    with torch.no_grad():
        constant.bias.copy_(torch.tensor([0.0, 0.0, 1.0]))
    retained = Batch(torch.randn(40, 2), torch.zeros(40, dtype=torch.long))
    assert not was_known(Request(3, (2,)), Known(40, 40), scores_of(constant, retained))
    by_first = nn.Linear(2, 3, bias=False)
    with torch.no_grad():
        by_first.weight.copy_(torch.tensor([[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]))  # class 0 or 2 by the sign
    retained = Batch(-torch.ones(40, 2), torch.zeros(40, dtype=torch.long))
    assert was_known(Request(3, (2,)), Known(40, 40), scores_of(by_first, retained))


@pytest.mark.parametrize(
    ("hits", "others", "known"),
    [(40, 50, True), (40, 120, False), (12, 2, True), (2, 0, False), (0, 0, False), (25, 100, False)],
)
def test_a_class_of_many_may_be_known_though_it_is_seldom_right(hits: int, others: int, known: bool) -> None:
    """Of 250 samples of ten classes of a hundred; of 1,000 others 300 are right, and so many are called one of the ten.

    Twice as often is enough, and a percent is what may be left of a class that was forgotten.
    """
    labels = torch.arange(1000) % 90 + 10
    said = torch.where(torch.arange(1000) < 300, labels, 10 + (labels + 1) % 90)
    said[1000 - others :] = 0
    scores = Scores(F.one_hot(said, 100).float(), labels)
    assert was_known(Request(100, tuple(range(10))), Known(hits, 250), scores) is known


def look(hits: int, distance: float, *, higher: float = 0.1) -> Look:
    """At 200 records, so many of them classified as their label, whose probability is `higher` than it should be."""
    wanted = torch.linspace(0.1, 0.8, 200)
    return Look(torch.arange(200) < hits, wanted + higher, torch.full((200,), distance), wanted, torch.empty(200, 0))


@pytest.mark.parametrize(
    ("rule", "before", "after", "copied", "status"),
    [
        (Unseen(), look(190, 0.5), look(150, 0.009), 0, "forgotten"),
        (Unseen(), look(190, 0.5), look(150, 0.011), 0, "not forgotten"),
        (Unseen(), look(190, 0.5), look(150, 0.019, higher=0.01), 0, "forgotten"),
        (Unseen(), look(190, 0.5), look(150, 0.021, higher=0.01), 0, "not forgotten"),
        (Lowered(), look(190, 0.5), look(150, 0.02, higher=0.0), 0, "not forgotten"),
        (Unseen(), look(190, 0.5), look(0, 0.5), 0, "not forgotten"),
        (Unseen(), look(190, 0.5), look(150, 0.009), 1, "not forgotten"),
        (Unseen(), look(150, 0.009), look(150, 0.009), 0, "not known"),
        (Lowered(), look(190, 0.5), look(150, 0.009), 0, "not verified"),
        (Lowered(), look(190, 0.5), look(150, 0.02), 0, "not forgotten"),
        (Away(), look(190, 0.5), look(2, 3.0), 0, "forgotten"),
        (Away(), look(190, 0.5), look(3, 0.0), 0, "not forgotten"),
        (Away(), look(1, 0.5), look(1, 0.0), 0, "not known"),
    ],
)
def test_records_are_forgotten_when_they_are_where_they_should_be(
    rule: TargetRule, before: Look, after: Look, copied: int, status: Status
) -> None:
    """By distance where there are targets to reach, by label where there is one to leave, and not with copies left."""
    assert judge_records(rule, before, after, copied) == status


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (Unseen(), "what it says of unseen samples, so"),
        (Lowered(), "what it should say"),
        (Away(), "what it should say"),
    ],
)
def test_records_that_were_not_known_have_nothing_to_forget(rule: TargetRule, said: str) -> None:
    """Not known by heart, and in which sense, by the rule that was asked."""
    records = RecordMetrics("any", 0.009, 0.009, 1.0, 1.0, Copies(), None)
    promise = promise_on_records(rule, "budgeted", "not known", "forgotten", records, retained=9)
    assert said in promise and "there is nothing known by heart to forget" in promise
