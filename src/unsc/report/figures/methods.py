"""Methods by one metric, which the reader chooses: mean and standard deviation, with what retraining gets."""

from __future__ import annotations

from unsc.compare.comparison import RETRAIN
from unsc.compare.order import blocks
from unsc.compare.render import HEADLINE
from unsc.evaluation.shared.fooled import in_words
from unsc.evaluation.shared.metrics import Metric
from unsc.report.charts import Series, lying_bars
from unsc.report.comparison import ComparisonRun, role
from unsc.report.figure import Chart, Figure, View


def figure(run: ComparisonRun) -> Figure:
    """A view for each metric, those of the first table first."""
    known = run.results.measured()
    order = [*(name for name in HEADLINE if name in known), *(name for name in known if name not in HEADLINE)]
    views = {known[name].title: _view(run, known[name]) for name in order}
    return Figure(
        "Methods by metric",
        "Mean over trials, with the standard deviation as a line. The dashed line is what retraining gets. Controls, "
        "which forget nothing, are hatched.",
        views,
    )


def _view(run: ComparisonRun, metric: Metric) -> View:
    methods = [name for name in blocks(run.results.cells).all if run.results.summary(name, metric.name) is not None]
    found = {name: run.results.summary(name, metric.name) for name in methods}
    values = [{"value": float(f"{s.mean:.5g}"), "paint": role(run, name)} for name, s in found.items() if s is not None]
    series = Series(metric.title, values, "method")
    option = lying_bars(methods, [series], axis=f"{metric.title} ({metric.unit})" if metric.unit else metric.title)
    option["series"][0]["spread"] = [
        None if s is None or s.sd is None else float(f"{s.sd:.4g}") for s in found.values()
    ]
    reference = found.get(RETRAIN)
    if reference is not None:
        option["series"][0]["reference"] = float(f"{reference.mean:.5g}")
    title = f"{metric.about} Better: {metric.direction}. Fooled by: {in_words(run.results.fooled(metric))}."
    unit = f" {metric.unit}" if metric.unit else ""
    return View(
        (Chart(title, option, unit, 70 + 22 * len(methods)),),
        ("method", "role", "mean", "standard deviation", "trials"),
        tuple((name, role(run, name), s.mean, s.sd, s.n) for name, s in found.items() if s is not None),
    )
