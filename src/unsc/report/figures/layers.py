"""Layer by layer: what the guide holds, what steps spent, and how far outputs on retained samples drifted."""

from __future__ import annotations

from unsc.report.charts import Series, lying_bars
from unsc.report.figure import Chart, Figure
from unsc.report.request import RequestRun
from unsc.steps.held import LayerFigures


def figure(run: RequestRun) -> Figure | None:
    """None if the folder does not say."""
    if run.run is None:
        return None
    layers = run.run.layers or {n: LayerFigures(None, None, None, d) for n, d in run.run.drift.items()}
    names, found = list(layers), list(layers.values())
    height = 90 + 26 * len(names)
    charts, said = [], []
    held = [None if x.held is None or not x.columns else round(100 * x.held / x.columns, 2) for x in found]
    if any(value is not None for value in held):
        drawn = lying_bars(names, [Series("Held", held, "result")], axis="% of the directions")
        charts.append(Chart("Rank: what is held", drawn, " %", height))
        said.append("Rank is the share of the directions of a layer's inputs that steps are kept away from.")
    spent = [x.spent for x in found]
    if (total := sum(x or 0.0 for x in spent)) > 0:
        shares = [None if x is None else round(100 * x / total, 3) for x in spent]
        drawn = lying_bars(names, [Series("Spent", shares, "result")], axis="% of what all layers spent")
        charts.append(Chart("Budget: what was spent", drawn, " %", height))
        said.append("Budget is what the steps of a layer were predicted to cost retained predictions by themselves.")
    drift = [float(f"{100 * x.drift:.4g}") for x in found]
    charts.append(
        Chart("Drift: what was moved", lying_bars(names, [Series("Drift", drift, "result")], axis="%"), " %", height)
    )
    said.append("Drift is the relative change of its outputs on retained samples.")
    return Figure.of(
        "Layer by layer",
        " ".join(said),
        charts,
        ("layer", "directions held", "of", "spent (nats)", "drift"),
        [(name, x.held, x.columns, x.spent, x.drift) for name, x in layers.items()],
    )
