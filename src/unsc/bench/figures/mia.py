"""The paper's membership attack: how many forgotten samples it takes for never seen, method by method."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import fill

from unsc.bench.figures.shared.figure import FIGURES, Content, ResultFigure
from unsc.bench.results import Result, said_of_attacks
from unsc.compare.canvas import canvas, save
from unsc.compare.order import blocks

METRIC = "mia_confidence"


def measure(found: Iterable[Result]) -> Content:
    """The attack's values, 0 to 1, in every trial of the table of all methods, by method."""
    values: dict[str, list[float]] = {}
    chosen = [result for result in found if result.table == "table1" and METRIC in result.values]
    for result in chosen:
        values.setdefault(result.method, []).append(result.values[METRIC])
    ordered = blocks(values)
    return {
        "values": {name: values[name] for name in ordered.all},
        "controls": ordered.controls,
        "note": said_of_attacks(chosen),
    }


def gather(found: Sequence[Result]) -> dict[str, Content]:
    """One picture, if the attack was measured."""
    content = measure(found)
    return {"mia": content} if content["values"] else {}


def draw(content: Content, path: Path) -> None:
    """A bar for each method, the mean over trials, with a dot for each trial; retraining's mean is a line."""
    values: dict[str, list[float]] = content["values"]
    width = max(6.0, 0.42 * len(values) + 1)
    figure = canvas(width, 4.1)
    axes = figure.add_subplot()
    for i, (name, trials) in enumerate(values.items()):
        mean = sum(trials) / len(trials)
        axes.bar(i, mean, 0.7, color=_colour(name, content["controls"]))
        if len(trials) > 1:
            axes.plot([i] * len(trials), trials, "o", color="#222222", markersize=2.5)
        if name == "retrain":
            axes.axhline(mean, color="#444444", linewidth=0.8, linestyle=":", zorder=0)
    axes.set_xticks(range(len(values)), list(values), rotation=50, ha="right", rotation_mode="anchor", fontsize=8)
    axes.set(ylim=(0, 1.05), xlim=(-0.6, len(values) - 0.4))
    axes.set_ylabel("taken for never seen (share)")
    trials = max(map(len, values.values()))
    dots = "; dots: trials" if trials > 1 else ""
    title = (
        f"Membership attack on forgotten training samples, higher is better (n = {trials} "
        f"trial{'s' if trials > 1 else ''}{dots}; grey: reference, yellow: control)"
    )
    letters = int(13 * width)  # as many as fit into a line
    axes.set_title("\n".join(fill(text, letters) for text in (title, content["note"])), fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, path)


def _colour(name: str, controls: list[str]) -> str:
    if name in controls:
        return "#d9a441"
    return {"original": "#b8bcc2", "retrain": "#6f7680", "unsc": "#12508c"}.get(name, "#7fb2d9")


FIGURES.add(ResultFigure("mia", gather, draw))
