"""Accuracy class by class, of the networks that the paper compares, from result files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from unsc.bench.drawing import class_accuracy
from unsc.bench.figures.shared.figure import FIGURES, Content, ResultFigure
from unsc.bench.results import Result
from unsc.compare.canvas import canvas, save

NETWORKS = {
    "original": "original",
    "retrain": "retrained",
    "unsc_paper": "UNSC, paper's step",
    "unsc": "UNSC, ours",
}
"""Methods in the order of their bars, and their names in the legend."""
_MANY = 20
"""With more classes than this bars cannot be told apart, and dots are drawn."""


def measure(found: Iterable[Result]) -> Content:
    """Mean test accuracy in percent over the trials of one experiment, by network and class."""
    chosen = [result for result in found if result.method in NETWORKS and "retain_test_acc" in result.values]
    accuracy, trials = {}, {}
    for method, title in NETWORKS.items():
        own = [result for result in chosen if result.method == method]
        rows = [_by_class(result) for result in own]
        if rows:
            trials[title] = len({result.trial for result in own})
            accuracy[title] = {k: fmean(row[k] for row in rows) for k in rows[0]}
    return {
        "forgotten": list(chosen[0].classes) if chosen else [],
        "trials": trials,
        "accuracy": accuracy,
    }


def gather(found: Sequence[Result]) -> dict[str, Content]:
    """One picture for the table of all methods, and one for each number of classes, where a method can be seen."""
    pictures = {}
    kinds = {(result.table, len(result.classes)) for result in found if result.table in ("table1", "multiclass")}
    for table, count in sorted(kinds):
        content = measure(result for result in found if (result.table, len(result.classes)) == (table, count))
        if content["accuracy"].keys() - {NETWORKS["original"], NETWORKS["retrain"]}:
            pictures["classes" if table == "table1" else f"classes-{count:02}"] = content
    return pictures


def draw(content: Content, path: Path) -> None:
    """Bars for each class, or, of many classes, dots against the original's accuracy."""
    accuracy = {name: {int(k): v for k, v in row.items()} for name, row in content["accuracy"].items()}
    if max(map(len, accuracy.values())) > _MANY and NETWORKS["original"] in accuracy:
        _dots(accuracy, set(content["forgotten"]), path)
    else:
        class_accuracy(path, accuracy, forgotten=content["forgotten"], title=title_of(content["trials"]))


def title_of(trials: Mapping[str, int]) -> str:
    """What the bars are means of, by network; those whose number is not that of most are named."""
    usual = max(trials.values(), key=list(trials.values()).count)
    others = "".join(f"; {name}: {_in_words(n)}" for name, n in trials.items() if n != usual)
    return _in_words(usual) + others


def _in_words(trials: int) -> str:
    return f"mean of {trials} trials" if trials > 1 else "one trial"


def _dots(accuracy: dict[str, dict[int, float]], forgotten: set[int], path: Path) -> None:
    """A panel for each network but the original: on the diagonal a class is as it was."""
    before = accuracy[NETWORKS["original"]]
    others = {name: row for name, row in accuracy.items() if row is not before}
    figure = canvas(3.4 * len(others), 3.9)
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
    save(figure, path)


def _by_class(result: Result) -> dict[str, float]:
    """A part of one class alone has no values by class: they are its own."""
    found = result.content["measured"]["values"]
    retained, gone = found["retain_test_acc"], found["forget_test_acc"]
    alone = {str(result.classes[0]): gone["value"]}
    if retained["detail"] is None:  # one class is left, whose number the result does not hold
        return gone["detail"] or alone
    return dict(sorted({**retained["detail"], **(gone["detail"] or alone)}.items(), key=lambda item: int(item[0])))


FIGURES.add(ResultFigure("classes", gather, draw))
