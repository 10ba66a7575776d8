"""Metrics by name: what they need, what is skipped and why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import nn

from unsc.batches import Batch
from unsc.errors import InvalidData, InvalidRequest
from unsc.evaluation.shared.case import Case
from unsc.evaluation.shared.metrics import Measured, Metric, Value, measure, measures, metrics, temporary_metrics
from unsc.request import Request


@pytest.fixture
def registered() -> Iterator[None]:
    """What a test registers is gone after it."""
    with temporary_metrics():
        yield


def metric(name: str, *needs: str) -> Metric:
    return Metric(name, name, "lower", "", f"About {name}.", needs)  # type: ignore[arg-type]


@pytest.fixture
def case() -> Case:
    batch = Batch(torch.randn(2, 3), torch.tensor([0, 1]))
    names = ("forget_train", "retain_train", "forget_test", "retain_test")
    return Case(nn.Linear(3, 2), Request.for_classes([0], 2), dict.fromkeys(names, batch))  # type: ignore[arg-type]


def test_every_metric_is_complete() -> None:
    """Each has a unique short title and a sentence, and those of this package come in the order of tables."""
    known = metrics()
    assert all(m.name == name and m.title and m.about.endswith(".") and m.group for name, m in known.items())
    assert len({m.title for m in known.values()}) == len(known)
    order = [name for name in known if name in ("retain_test_acc", "js_forget", "probe_linear", "rebound", "seconds")]
    assert order == ["retain_test_acc", "js_forget", "probe_linear", "rebound", "seconds"]


def test_unknown_names_suggest_the_nearest(case: Case) -> None:
    with pytest.raises(InvalidRequest, match="no metric 'forget_tst_acc'; did you mean forget_test_acc"):
        measure(case, ["forget_tst_acc"])


def test_what_is_named_must_be_possible(registered: None, case: Case) -> None:
    @measures(metric("easy"), metric("hard", "retrained", "cost"))
    def group(case: Case) -> dict[str, Value]:
        found = {"easy": Value(1.0, 1)}
        return found if case.retrained is None else found | {"hard": Value(2.0, 1)}

    with pytest.raises(InvalidRequest, match=r"hard needs .*\(retrained=\.\.\.\) and the cost of unlearning"):
        measure(case, ["hard"])
    assert measure(case, ["easy"]) == Measured({"easy": Value(1.0, 1)}, {})


def test_what_is_not_named_is_skipped_with_the_reason(registered: None, case: Case) -> None:
    @measures(metric("easy"), metric("hard", "twin"))
    def group(case: Case) -> dict[str, Value]:
        return {"easy": Value(1.0, 1)}

    found = measure(case)
    assert found.values["easy"] == Value(1.0, 1)
    assert "hard" not in found.values and found.skipped["hard"] == "needs a second retrained model (twin=...)"


def test_an_error_in_one_group_keeps_the_others(registered: None, case: Case) -> None:
    @measures(metric("first"), metric("second"))
    def fails(case: Case) -> dict[str, Value]:
        raise InvalidData("there is nothing here")

    @measures(metric("third"))
    def works(case: Case) -> dict[str, Value]:
        return {"third": Value(3.0, 1)}

    found = measure(case)
    assert found.values["third"] == Value(3.0, 1)
    assert found.skipped["first"] == found.skipped["second"] == "there is nothing here"


def test_a_bug_is_not_a_reason(registered: None, case: Case) -> None:
    @measures(metric("broken"))
    def group(case: Case) -> dict[str, Value]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        measure(case)


def test_a_group_runs_once_and_only_if_asked(registered: None, case: Case) -> None:
    runs = []

    @measures(metric("a"), metric("b"))
    def together(case: Case) -> dict[str, Value]:
        runs.append("together")
        return {"a": Value(1.0, 1), "b": Value(2.0, 1)}

    @measures(metric("c"))
    def apart(case: Case) -> dict[str, Value]:
        runs.append("apart")
        return {"c": Value(3.0, 1)}

    assert set(measure(case, ["a", "b"]).values) == {"a", "b"} and runs == ["together"]
    assert set(measure(case, ["b"]).values) == {"b"}


def test_what_was_measured_survives_json() -> None:
    found = Measured({"a": Value(1.5, 3, 1.0, 2.0, {"0": 4.0})}, {"b": "needs time"})
    assert Measured.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_all_metrics_of_a_real_case_survive_json(digits_case: Case) -> None:
    """Everything in a detail is plain: what comes back from a file is what was measured."""
    wanted = [m.name for m in metrics().values() if m.group.rsplit(".", 1)[-1] in _OF_MODELS]
    few = {name: part[torch.arange(len(part)) % 4 == 0] for name, part in digits_case.parts.items()}
    found = measure(replace(digits_case, parts=few), wanted)  # type: ignore[arg-type]
    assert set(found.values) == set(wanted) and found.skipped == {}
    assert Measured.from_dict(json.loads(json.dumps(found.to_dict()))) == found


_OF_MODELS = ("accuracies", "gaps_to_retraining", "harm_to_neighbours", "distances_to_retraining", "relearning",
          "probe_recall", "alignment_with_retraining")  # fmt: skip
