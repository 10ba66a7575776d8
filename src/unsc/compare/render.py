"""A comparison as tables, for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from unsc.compare.order import blocks
from unsc.compare.picture import scorecard
from unsc.compare.run import Finished
from unsc.compare.table import Comparison, Summary, write
from unsc.evaluation.shared.fooled import in_words
from unsc.evaluation.shared.metrics import Metric
from unsc.storage.files import write_whole

HEADLINE = (
    "retain_test_acc",
    "forget_test_acc",
    "tug_of_war",
    "js_forget",
    "mia_confidence",
    "rmia_auc",
    "ulira_auc",
    "probe_linear",
    "relearn_10",
    "rebound",
    "seconds",
)
"""The metrics of the first table."""

_TITLES = {
    "utility": "Utility",
    "distance": "Distance to retraining",
    "membership": "Membership",
    "representation": "Representation",
    "relearning": "Relearning",
    "rebound": "Sequential requests",
    "spent": "Cost",
}


@dataclass(frozen=True)
class Grid:
    """A table of text; the first column names the rows."""

    title: str
    head: tuple[str, ...]
    blocks: tuple[tuple[tuple[str, ...], ...], ...]
    """Rows, in blocks with a line between them."""

    def markdown(self) -> str:
        rows = [self.head, *(row for block in self.blocks for row in block)]
        lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
        rule = "|".join(["---", *("--:" for _ in self.head[1:])])
        return "\n".join([f"**{self.title}**", "", f"| {lines[0]} |", f"|{rule}|", *(f"| {x} |" for x in lines[1:])])

    def show(self, console: Console) -> None:
        """Print it, in pieces of as many columns as fit."""
        rows = [self.head, *(row for block in self.blocks for row in block)]
        widths = [max(len(row[i]) for row in rows) + 3 for i in range(len(self.head))]
        pieces: list[list[int]] = [[]]
        for i in range(1, len(self.head)):
            if pieces[-1] and widths[0] + sum(widths[k] for k in (*pieces[-1], i)) > console.width:
                pieces.append([])
            pieces[-1].append(i)
        for piece in pieces:
            self._show_columns([0, *piece], console)

    def _show_columns(self, columns: list[int], console: Console) -> None:
        table = Table(title=self.title, pad_edge=False)
        for i in columns:
            table.add_column(self.head[i], justify="right" if i else "left", no_wrap=not i)
        for block in self.blocks:
            for row in block:
                table.add_row(*(Text(row[i]) for i in columns), style="bold" if row[0] == "unsc" else None)
            table.add_section()
        console.print(table)


def headline(comparison: Comparison) -> Grid:
    """The few metrics to look at first."""
    known = comparison.measured()
    return _grid("Overview", [known[name] for name in HEADLINE if name in known], comparison)


def by_group(comparison: Comparison) -> list[Grid]:
    """All metrics, a table for each group."""
    groups: dict[str, list[Metric]] = {}
    for metric in comparison.measured().values():
        groups.setdefault(_title(metric), []).append(metric)
    return [_grid(title, of_group, comparison) for title, of_group in groups.items()]


def legend(chosen: Iterable[Metric], comparison: Comparison) -> Grid:
    """What each metric means, which way is better, what retraining gets, and what fools it."""
    rows = []
    for metric in chosen:
        unit = f" ({metric.unit})" if metric.unit else ""
        reference = _cell(comparison.summary("retrain", metric.name))
        rows.append(
            (metric.title, f"{metric.about}{unit}", metric.direction, reference, in_words(comparison.fooled(metric)))
        )
    return Grid("Metrics", ("metric", "what it measures", "better", "retraining gets", "fooled by"), (tuple(rows),))


def report(comparison: Comparison, command: str) -> str:
    """Everything as Markdown."""
    known = comparison.measured()
    note = (
        f"Made by `{command}`. Mean ± standard deviation over {comparison.trials} trials, each with its own seeds and "
        "another forgotten class. The last row says which controls fool the column's metric: the control is nearer to "
        "retraining than to the original on it; `all` means that the original itself is as good as retraining there."
    )
    fallen = [
        f"- `{method}`: {reason}"
        for method in comparison.cells
        for reason in dict.fromkeys(comparison.diverged(method))
    ]
    parts = [note, headline(comparison).markdown()]
    if fallen:
        parts.append("† Fell apart in at least one trial:\n\n" + "\n".join(fallen))
    parts += [grid.markdown() for grid in by_group(comparison)]
    parts.append(legend(known.values(), comparison).markdown())
    return "\n\n".join(parts) + "\n"


def _grid(title: str, columns: Sequence[Metric], comparison: Comparison) -> Grid:
    def row(method: str) -> tuple[str, ...]:
        mark = " †" if comparison.diverged(method) else ""
        return (method + mark, *(_cell(comparison.summary(method, metric.name)) for metric in columns))

    about = (
        ("better", *(metric.direction for metric in columns)),
        ("fooled by", *(in_words(comparison.fooled(metric)) for metric in columns)),
    )
    head = ("method", *(f"{m.title} ({m.unit})" if m.unit else m.title for m in columns))
    return Grid(title, head, (*(tuple(map(row, names)) for names in blocks(comparison.cells) if names), about))


def _title(metric: Metric) -> str:
    return _TITLES.get(metric.topic, metric.topic.replace("_", " ").capitalize())


def _cell(summary: Summary | None) -> str:
    return "–" if summary is None else str(summary)


def write_report(finished: Finished, command: str, console: Console) -> None:
    """Write all results of a comparison to its folder, and show the first table."""
    run = finished.run
    comparison = Comparison.read(run)
    write(comparison, run, seconds=finished.seconds)
    text = f"# Methods compared on {run.config.data}\n\n" + report(comparison, command)
    write_whole(run.folder / "report.md", lambda path: path.write_text(text))
    scorecard(run.folder / "scorecard.png", comparison)
    first = headline(comparison)
    first.show(console)
    console.print(
        "Mean ± standard deviation over trials. Fooled: the control is nearer to retraining than to the original."
    )
    if any(map(comparison.diverged, comparison.cells)):
        console.print("† Fell apart in at least one trial; report.md says why.")
