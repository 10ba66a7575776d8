"""Compared methods in a table that can be sorted: white is like retraining, full colour like the original."""

from __future__ import annotations

from unsc.compare.order import blocks
from unsc.compare.picture import distance_to_retraining, tells_forgetting
from unsc.compare.render import HEADLINE
from unsc.evaluation.shared.fooled import in_words
from unsc.report.comparison import ComparisonRun, role
from unsc.report.html import Badge, Shaded, bullets, paragraph, table
from unsc.report.parts.networks import mark


def sentence(run: ComparisonRun) -> str:
    """What was compared, and how far its metrics can be trusted."""
    names = blocks(run.results.cells)
    known = run.results.measured().values()
    fooled = [metric for metric in known if run.results.fooled(metric) not in (None, ())]
    return (
        f"{len(names.methods)} methods beside {len(names.controls)} controls that forget nothing: "
        f"{len(fooled)} of {len(known)} metrics are fooled by at least one of them, and cannot show forgetting alone."
    )


def part(run: ComparisonRun) -> str:
    """The metrics to look at first, for every method."""
    known = run.results.measured()
    columns = [known[name] for name in HEADLINE if name in known] or list(known.values())
    rows = []
    for method in blocks(run.results.cells).all:
        cells: list[Shaded] = []
        for metric in columns:
            summary = run.results.summary(method, metric.name)
            share = (
                distance_to_retraining(method, metric, run.results) if tells_forgetting(metric, run.results) else None
            )
            shown = run.results.shown(method, metric.name)
            cells.append(Shaded(shown, None if summary is None else summary.mean, share))
        diverged = " †" if run.results.diverged(method) else ""
        rows.append([Badge(method + diverged, mark(role(run, method))), *cells])
    head = ("method", *(f"{m.title} ({m.unit})" if m.unit else m.title for m in columns))
    note = (
        "Mean ± standard deviation over trials. Shading: none is like retraining, full like the original (for retained "
        "accuracy: ten points worse). A column without shading does not tell the original from retraining here."
    )
    lost = [f"† {name}: {why}" for name in run.results.cells for why in dict.fromkeys(run.results.diverged(name))]
    legend = [
        f"{m.title}: {m.about} Better: {m.direction}. Fooled by: {in_words(run.results.fooled(m))}." for m in columns
    ]
    return (
        paragraph(note, "note")
        + table("Methods compared", head, rows)
        + (bullets(lost) if lost else "")
        + f"<details><summary>What each column measures, and what fools it</summary>{bullets(legend)}</details>"
    )
