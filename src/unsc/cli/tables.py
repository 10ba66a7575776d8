"""Tables for the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from unsc.compare.grid import Grid
from unsc.compare.render import headline
from unsc.compare.results import Results
from unsc.compare.tuning import Tuned
from unsc.evaluation.audit import Audit
from unsc.evaluation.shared.fooled import in_words
from unsc.evaluation.shared.metrics import Measured, Value, metrics
from unsc.methods import find, methods


def show_grid(grid: Grid, console: Console) -> None:
    """Print a table of text, in pieces of as many columns as fit."""
    rows = [grid.head, *(row for block in grid.blocks for row in block)]
    widths = [max(len(row[i]) for row in rows) + 3 for i in range(len(grid.head))]
    pieces: list[list[int]] = [[]]
    for i in range(1, len(grid.head)):
        if pieces[-1] and widths[0] + sum(widths[k] for k in (*pieces[-1], i)) > console.width:
            pieces.append([])
        pieces[-1].append(i)
    for piece in pieces:
        console.print(_columns(grid, [0, *piece]))


def _columns(grid: Grid, columns: list[int]) -> Table:
    table = Table(title=grid.title, pad_edge=False)
    for i in columns:
        table.add_column(grid.head[i], justify="right" if i else "left", no_wrap=not i)
    for block in grid.blocks:
        for row in block:
            # Brackets in names are not markup.
            table.add_row(*(Text(row[i]) for i in columns), style="bold" if row[0] == grid.bold else None)
        table.add_section()
    return table


def show_results(results: Results, console: Console) -> None:
    """Print the first table of a comparison."""
    show_grid(headline(results), console)
    console.print(
        "Mean ± standard deviation over trials. Fooled: the control is nearer to retraining than to the original."
    )
    if any(map(results.diverged, results.cells)):
        console.print("† Diverged in at least one trial; report.md says why.")


def methods_table() -> Table:
    """Every method, what it needs, what it can forget and what can be tuned."""
    table = Table("method", "needs", "forgets", "tunes", title="Methods")
    for method in methods().values():
        name = f"{method.name} (control)" if method.control else method.name
        table.add_row(name, *(", ".join(x) or "nothing" for x in (method.needs, method.kinds, method.search)))
    return table


def about_method(name: str) -> Text:
    """A method's docstring, and its settings."""
    method = find(name)

    def setting(key: str, value: object) -> str:
        return f"  {key} = {value!r}" + (f", searched in {method.search[key]}" if key in method.search else "")

    settings = [setting(*item) for item in method.defaults.items()] or ["  none"]
    return Text("\n".join([method.name, "", method.about, "", "Settings:", *settings]))


def about_metrics() -> Text:
    """Every metric: what it measures, which way is better and what it needs."""
    lines = []
    for metric in metrics().values():
        better = "as retrained is best" if metric.better == "reference" else f"{metric.better} is better"
        needs = f"; needs {', '.join(metric.needs)}" if metric.needs else ""
        unit = f" in {metric.unit}" if metric.unit else ""
        lines += [f"{metric.name}{unit}: {better}{needs}", f"    {metric.about}"]
    return Text("\n".join(lines))


def tuned_table(tuned: Tuned) -> Table:
    """Everything that was tried, on validation data."""
    table = Table("", "settings", "retain acc", "forget acc", "seconds", "", title=f"{tuned.method}, validation data")
    for one in tuned.tries:
        chosen = "chosen" if one is tuned.best else ""
        settings = ", ".join(f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in one.settings.items())
        scores = f"{one.retain_acc:.2f}", f"{one.forget_acc:.2f}", f"{one.seconds:.2f}"
        table.add_row(chosen, Text(settings or "none"), *scores, Text(one.diverged or ""))
    return table


def audit_table(result: Audit) -> Table:
    """What was measured, beside the values of a retrained model and the controls that fool the metric."""
    table = Table("metric", "value", "95 % interval", "n", "better", "retraining gets", "fooled by", title="Audit")
    for name, value in result.model.values.items():
        metric = metrics()[name]
        reference = result.retrained.values.get(name) if result.retrained else None
        table.add_row(
            f"{metric.title} ({metric.unit})" if metric.unit else metric.title,
            f"{value.value:.3f}",
            _interval(value),
            str(value.n),
            metric.direction,
            "?" if reference is None else f"{reference.value:.3f}",
            in_words(result.fooled_by(name)),
        )
    return table


def skipped_lines(measured: Measured) -> list[str]:
    """Which metrics were not measured, one line for each reason."""
    reasons: dict[str, list[str]] = {}
    for name, reason in measured.skipped.items():
        reasons.setdefault(reason, []).append(name)
    return [f"Not measured: {', '.join(names)}: {reason}" for reason, names in reasons.items()]


def _interval(value: Value) -> str:
    return "" if value.low is None else f"{value.low:.3f} to {value.high:.3f}"
