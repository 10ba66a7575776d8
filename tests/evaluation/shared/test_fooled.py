"""Which controls fool a metric, by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsc.evaluation.shared.fooled import ALL, fooled_by, shortfall
from unsc.evaluation.shared.metrics import Metric

HIGHER, LOWER, REFERENCE = (Metric("m", "m", better, "%", "A number.") for better in ("higher", "lower", "reference"))


def test_how_much_worse_than_retraining_by_hand() -> None:
    """In the metric's own direction, and never better than retraining unless its value is the target."""
    assert [shortfall(HIGHER, v, 60.0) for v in (50.0, 60.0, 70.0)] == [10, 0, 0]
    assert [shortfall(LOWER, v, 60.0) for v in (50.0, 60.0, 70.0)] == [0, 0, 10]
    assert [shortfall(REFERENCE, v, 60.0) for v in (50.0, 60.0, 70.0)] == [10, 0, 10]


@pytest.mark.parametrize(
    ("metric", "original", "retrained", "fooling", "honest"),
    [
        (LOWER, 100.0, 0.0, [0.0, 49.9, -20.0], [100.0, 50.0, 50.1, 150.0]),
        (HIGHER, 0.0, 80.0, [80.0, 40.1, 99.0], [0.0, 40.0, 39.9, -5.0]),
        (REFERENCE, 1.0, 0.5, [0.5, 0.74, 0.26], [1.0, 0.75, 0.76, 0.25, 0.0]),
        (REFERENCE, 0.0, 0.5, [0.5, 0.26, 0.74], [0.0, 0.25, 0.75]),
    ],
)
def test_nearer_to_retraining_than_to_the_original(
    metric: Metric, original: float, retrained: float, fooling: list[float], honest: list[float]
) -> None:
    """A control at retraining's value fools, one at the original's does not, nor one at the midpoint."""
    controls = {f"fools {v}": [v] for v in fooling} | {f"honest {v}": [v] for v in honest}
    found = fooled_by(metric, controls, original=[original], retrained=[retrained])
    assert found == tuple(f"fools {v}" for v in fooling)


def test_a_metric_that_is_blind_is_fooled_by_all() -> None:
    """Where the original is as good as retraining, or better, there is nothing to see."""
    for metric, original in ((LOWER, 5.0), (LOWER, 4.0), (HIGHER, 5.0), (HIGHER, 6.0), (REFERENCE, 5.0)):
        assert fooled_by(metric, {"mask": [5.0]}, original=[original], retrained=[5.0]) == (ALL,)


def test_means_over_trials_decide() -> None:
    """The controls' shortfalls are 30 and 60 on average, half of the original's is 50."""
    values = {"mask": [0.0, 60.0], "head": [20.0, 100.0]}
    assert fooled_by(LOWER, values, original=[100.0, 100.0], retrained=[0.0, 0.0]) == ("mask",)


def test_trials_are_paired_with_their_own_retraining() -> None:
    """Every trial of the original is worse by 1, though retraining differs by 50 between trials."""
    retrained = [0.0, 50.0, 100.0]
    found = fooled_by(LOWER, {"mask": [0.2, 50.2, 100.2]}, original=[1.0, 51.0, 101.0], retrained=retrained)
    assert found == ("mask",)


@pytest.mark.parametrize(("n", "quantile"), [(2, 12.706), (3, 4.303), (5, 2.776), (6, 2.571)])
def test_the_original_must_be_told_apart_by_a_t_test(n: int, quantile: float) -> None:
    """Differences whose t is just below or above the 97.5 % quantile of printed tables, n - 1 degrees of freedom."""
    spread = [(-1.0) ** i for i in range(n - n % 2)] + [0.0] * (n % 2)
    error = math.sqrt(sum(x * x for x in spread) / (n - 1)) / math.sqrt(n)
    for t, expected in ((0.999 * quantile, (ALL,)), (1.001 * quantile, ())):
        original = [t * error + x for x in spread]
        assert min(original) > 0
        for metric in (LOWER, REFERENCE):
            assert fooled_by(metric, {}, original=original, retrained=[0.0] * n) == expected
        assert fooled_by(HIGHER, {}, original=[-x for x in original], retrained=[0.0] * n) == expected


def test_what_was_not_measured_is_unknown() -> None:
    known = {"original": [1.0], "retrained": [0.0]}
    assert fooled_by(LOWER, {"mask": [0.0]}, original=[], retrained=[]) is None
    assert fooled_by(LOWER, {"mask": [0.0]}, original=[1.0, 1.0], retrained=[0.0]) is None
    assert fooled_by(LOWER, {"mask": [0.0]}, original=[math.nan], retrained=[0.0]) is None
    assert fooled_by(LOWER, {"mask": [0.0]}, original=[1.0], retrained=[math.nan]) is None
    assert fooled_by(LOWER, {"mask": [], "head": [0.0, 0.0], "bias": [math.nan]}, **known) == ()


@given(
    st.lists(st.tuples(*[st.floats(-100, 100)] * 3), min_size=1, max_size=6),
    st.sampled_from([HIGHER, LOWER, REFERENCE]),
)
def test_retraining_itself_always_fools_and_the_original_never_alone(rows: list[tuple], metric: Metric) -> None:
    """Whatever the numbers: a control equal to retraining fools; one equal to the original only if all do."""
    original, retrained, _ = (list(column) for column in zip(*rows, strict=True))
    found = fooled_by(metric, {"same": retrained, "none": original}, original=original, retrained=retrained)
    assert found in ((ALL,), ("same",))
