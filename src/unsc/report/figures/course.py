"""The course of a run, by step: loss, forget accuracy, and what retained predictions cost, predicted and measured."""

from __future__ import annotations

from collections.abc import Iterable

from unsc.report.charts import Series, lines
from unsc.report.figure import Cell, Chart, Figure
from unsc.report.request import RequestRun
from unsc.result import RunMetrics


def figure(run: RequestRun) -> Figure | None:
    """None if the folder does not say, or nothing was done."""
    if run.run is None or not (run.run.history or run.run.spent):
        return None
    m = run.run
    charts = [*_forgetting(m), *_retaining(m)]
    said = "Forget accuracy and retained KL are measured on held-out samples every few steps, from the original on."
    if m.spent:
        said += (
            " The loss is that of each step's own batch. The cost of a step is its change of retained predictions "
            "alone: what the guide predicts when it chooses the length, and what is measured after it."
        )
    else:
        said += " This step rule predicts no cost: by its theorem there is none, and what is measured is the rest."
    names = [series["name"] for chart in charts for series in chart.option["series"]]
    return Figure.of("Course of the run", said, charts, _COLUMNS, _rows(m), list(dict.fromkeys(names)))


_COLUMNS = (
    "step",
    "loss (nats)",
    "forget accuracy (%)",
    "forget mass",
    "distance to targets (nats)",
    "retained KL, measured (nats)",
    "cost of the step, predicted (nats)",
    "cost of the step, measured (nats)",
)


_STEP, _CHECK = "measured at every step", "measured at checks"


def _forgetting(m: RunMetrics) -> list[Chart]:
    found = [Series(_STEP, _rounded((s.step, s.loss) for s in m.spent), "result")] if m.spent else []
    found.append(Series(_CHECK, _rounded((c.steps, c.distance) for c in m.history), "retrained"))
    known = [(0, m.forget_acc_before), *((c.steps, c.forget_acc) for c in m.history)]
    accuracy = [Series(_CHECK, _rounded(known), "retrained")]
    return [
        Chart("Loss", lines(found, below="step", axis="nats"), " nats", 260),
        Chart("Forget accuracy", lines(accuracy, below="step", axis="%"), " %", 260),
    ]


def _retaining(m: RunMetrics) -> list[Chart]:
    start = [(0, 0.0)]
    checks = [*(start if not m.spent else []), *((c.steps, c.retained_kl) for c in m.history)]
    found = [Series(_CHECK, _rounded(checks), "retrained")]
    if m.spent:
        totals = [*start, *((s.step, s.total) for s in m.spent)]
        found.insert(0, Series(_STEP, _rounded(totals), "result"))
    charts = [Chart("Retained KL since the original", lines(found, below="step", axis="nats"), " nats", 260)]
    if m.spent:
        costs = [
            Series("predicted", _rounded((s.step, s.predicted) for s in m.spent), "method", dashed=True),
            Series(_STEP, _rounded((s.step, s.measured) for s in m.spent), "result"),
        ]
        charts.append(Chart("Retained KL of each step", lines(costs, below="step", axis="nats"), " nats", 260))
    return charts


def _rounded(pairs: Iterable[tuple[int, float]]) -> list[tuple[int, float]]:
    return [(x, float(f"{y:.4g}")) for x, y in pairs]


def _rows(m: RunMetrics) -> list[tuple[Cell, ...]]:
    checks, costs = {c.steps: c for c in m.history}, {s.step: s for s in m.spent}
    rows: list[tuple[Cell, ...]] = [(0, None, m.forget_acc_before, None, None, 0.0, None, None)]
    for n in sorted(checks.keys() | costs.keys()):
        spent, check = costs.get(n), checks.get(n)
        rows.append(
            (
                n,
                spent and spent.loss,
                check and check.forget_acc,
                check and check.forget_mass,
                check and check.distance,
                check.retained_kl if check else spent and spent.total,
                spent and spent.predicted,
                spent and spent.measured,
            )
        )
    return rows
