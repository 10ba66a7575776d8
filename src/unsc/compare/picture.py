"""A comparison at a glance: how far each method is from retraining, metric by metric."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

from unsc.compare.canvas import canvas, save
from unsc.compare.comparison import ORIGINAL, RETRAIN
from unsc.compare.order import blocks
from unsc.compare.results import Results
from unsc.evaluation.shared.fooled import ALL, shortfall
from unsc.evaluation.shared.metrics import Metric

_UTILITY = ("retain_test_acc", "neighbour_harm")
"""Shown although the original is as good as retraining on them: full colour is ten points worse than retraining."""


def scorecard(path: Path, results: Results) -> None:
    """Draw methods by metrics: white is like retraining, full red like the original, grey not measured.

    Of the metrics that do not tell the original from retraining only those of utility are shown.
    """
    columns = [m for m in results.measured().values() if tells_forgetting(m, results)]
    ordered = blocks(results.cells)
    rows = ordered.all
    figure = canvas(2.2 + 0.62 * len(columns), 1.9 + 0.3 * len(rows))
    axes = figure.add_subplot()
    for i, method in enumerate(rows):
        for j, metric in enumerate(columns):
            value, summary = distance_to_retraining(method, metric, results), results.summary(method, metric.name)
            colour = "#dddddd" if value is None else (1.0, 1 - 0.75 * value, 1 - 0.8 * value)
            axes.fill([j, j + 1, j + 1, j], [i, i, i + 1, i + 1], color=colour, edgecolor="white", linewidth=1)
            unknown = "?" if results.unknown(method, metric.name) else ""
            text = f"{summary.mean:.3g}" if summary is not None else unknown
            axes.text(j + 0.5, i + 0.52, text, ha="center", va="center", fontsize=6.5)
    axes.set(xlim=(0, len(columns)), ylim=(len(rows), 0))
    axes.set_xticks([j + 0.5 for j in range(len(columns))], [m.title for m in columns], rotation=50, ha="left")
    axes.set_yticks([i + 0.5 for i in range(len(rows))], rows)
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelsize=8)
    axes.spines[:].set_visible(False)
    for line in (len(ordered.references), len(rows) - len(ordered.controls)):
        axes.axhline(line, color="#444444", linewidth=1)
    axes.set_xlabel("white: like retraining; red: like the original (retained accuracy: ten points worse)", fontsize=8)
    save(figure, path)


def tells_forgetting(metric: Metric, results: Results) -> bool:
    """Whether a metric tells the original from retraining here, or may: what retraining gets is not always known.

    Those of utility are shown in any case.
    """
    if metric.name in ("retain_gap", "forget_gap"):  # the accuracies are there already
        return False
    if metric.name in _UTILITY or results.unknown(RETRAIN, metric.name):
        return True
    return results.fooled(metric) not in (None, (ALL,))


def distance_to_retraining(method: str, metric: Metric, results: Results) -> float | None:
    """How much worse than retraining, as a share of the original's distance; at most 1. By the trials that all have."""
    names = (method, RETRAIN) if metric.name in _UTILITY else (method, RETRAIN, ORIGINAL)
    mine, retrained, *original = (results.by_trial(name, metric.name) for name in names)
    trials = [t for t in mine if t in retrained and all(t in values for values in original)]
    if not trials:
        return None
    short = fmean(shortfall(metric, mine[t], retrained[t]) for t in trials)
    if not original:
        return min(1.0, short / 10)
    scale = fmean(shortfall(metric, original[0][t], retrained[t]) for t in trials)
    return min(1.0, short / scale) if scale > 0 else None
