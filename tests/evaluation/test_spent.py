"""Costs and shares of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unsc.cost import Cost
from unsc.errors import InvalidRequest
from unsc.evaluation.shared.case import Case
from unsc.evaluation.shared.metrics import Measured, measure

NAMES = ["seconds", "seconds_share", "peak_mib", "memory_share"]


def spent(case: Case, cost: Cost, retrained: Cost) -> Measured:
    return measure(replace(case, cost=cost, retrained_cost=retrained), NAMES)


def test_shares_are_percentages(digits_case: Case) -> None:
    found = spent(digits_case, Cost(3.0, 50.0), Cost(12.0, 200.0))
    assert {name: found.values[name].value for name in NAMES} == {
        "seconds": 3.0,
        "seconds_share": 25.0,
        "peak_mib": 50.0,
        "memory_share": 25.0,
    }


def test_unknown_memory_leaves_the_time(digits_case: Case) -> None:
    found = spent(digits_case, Cost(3.0, None), Cost(12.0, 200.0))
    assert set(found.values) == {"seconds", "seconds_share"}
    assert "unlearning took is unknown" in found.skipped["peak_mib"]
    found = spent(digits_case, Cost(3.0, 50.0), Cost(12.0, None))
    assert set(found.values) == {"seconds", "seconds_share", "peak_mib"}
    assert "retraining took is unknown" in found.skipped["memory_share"]


def test_there_is_no_share_of_nothing(digits_case: Case) -> None:
    found = spent(digits_case, Cost(3.0, 50.0), Cost(0.0, 0.0))
    assert set(found.values) == {"seconds", "peak_mib"}
    assert "0 seconds" in found.skipped["seconds_share"] and "0 MiB" in found.skipped["memory_share"]


def test_shares_need_both_costs(digits_case: Case) -> None:
    alone = replace(digits_case, cost=Cost(3.0, 50.0))
    assert set(measure(alone, ["seconds", "peak_mib"]).values) == {"seconds", "peak_mib"}
    for name in ("seconds_share", "memory_share"):
        with pytest.raises(InvalidRequest, match=f"{name} needs the cost of retraining"):
            measure(alone, [name])
