"""Accuracy class by class, of the networks that the paper compares, from result files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from unsc.bench.drawing import class_accuracy
from unsc.bench.record import Record
from unsc.storage.files import write_whole

NETWORKS = {
    "original": "original",
    "retrain": "retrained",
    "unsc_paper": "UNSC, paper's step",
    "unsc": "UNSC, ours",
}
"""Methods in the order of their bars, and their names in the legend."""
_MANY = 20
"""Beyond so many classes bars cannot be told apart, and dots are drawn."""


def measure(found: Iterable[Record]) -> dict[str, Any]:
    """Mean test accuracy in percent over the trials of one experiment, by network and class."""
    chosen = [record for record in found if record.method in NETWORKS and "retain_test_acc" in record.values]
    accuracy = {}
    for method, title in NETWORKS.items():
        rows = [_by_class(record) for record in chosen if record.method == method]
        if rows:
            accuracy[title] = {k: fmean(row[k] for row in rows) for k in rows[0]}
    return {
        "forgotten": list(chosen[0].classes) if chosen else [],
        "trials": len({record.trial for record in chosen}),
        "accuracy": accuracy,
    }


def draw(content: dict[str, Any], path: Path) -> None:
    """Bars for each class, or, of many classes, dots against the original's accuracy."""
    accuracy = {name: {int(k): v for k, v in row.items()} for name, row in content["accuracy"].items()}
    if max(map(len, accuracy.values())) > _MANY and NETWORKS["original"] in accuracy:
        _dots(accuracy, set(content["forgotten"]), path)
    else:
        title = f"mean of {content['trials']} trials" if content["trials"] > 1 else "one trial"
        class_accuracy(path, accuracy, forgotten=content["forgotten"], title=title)


def _dots(accuracy: dict[str, dict[int, float]], forgotten: set[int], path: Path) -> None:
    """A panel for each network but the original: on the diagonal a class is as it was."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    before = accuracy[NETWORKS["original"]]
    others = {name: row for name, row in accuracy.items() if row is not before}
    figure = Figure(figsize=(3.4 * len(others), 3.9), layout="constrained")
    for i, (name, row) in enumerate(others.items()):
        axes = figure.add_subplot(1, len(others), i + 1)
        axes.plot([0, 100], [0, 100], color="#b8bcc2", linewidth=1, zorder=0)
        for gone, colour, label in ((False, "#12508c", "retained class"), (True, "#c0392b", "forgotten class")):
            shown = [k for k in row if (k in forgotten) == gone]
            dots = [before[k] for k in shown], [row[k] for k in shown]
            axes.scatter(*dots, s=14, alpha=0.7, linewidths=0, color=colour, label=label if i == 0 else None)
        axes.set(xlim=(-3, 103), ylim=(-3, 103), aspect="equal")
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("original: accuracy (%)")
        if i == 0:
            axes.set_ylabel("test accuracy (%)")
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    FigureCanvasAgg(figure)
    write_whole(path, lambda p: figure.savefig(p, dpi=150))


def _by_class(record: Record) -> dict[str, float]:
    """A part of one class alone has no values by class: they are its own."""
    found = record.content["measured"]["values"]
    retained, gone = found["retain_test_acc"], found["forget_test_acc"]
    alone = {str(record.classes[0]): gone["value"]}
    if retained["detail"] is None:  # one class is left, whose number the record does not hold
        return gone["detail"] or alone
    return dict(sorted({**retained["detail"], **(gone["detail"] or alone)}.items(), key=lambda item: int(item[0])))
