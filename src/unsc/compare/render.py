"""A comparison as tables, and all of it as a report in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unsc.compare.comparison import RETRAIN
from unsc.compare.grid import Grid
from unsc.compare.order import blocks
from unsc.compare.picture import scorecard
from unsc.compare.results import Results, write
from unsc.compare.run import Finished
from unsc.evaluation.shared.fooled import in_words
from unsc.evaluation.shared.metrics import Metric
from unsc.storage.files import write_whole

HEADLINE = (
    "retain_test_acc",
    "forget_test_acc",
    "records_acc",
    "loss_attack_auc",
    "js_records",
    "tug_of_war",
    "js_forget",
    "mia_confidence",
    "rmia_auc",
    "ulira_auc",
    "ulira_kept_auc",
    "probe_linear",
    "relearn_10",
    "prompt_forget_acc",
    "rebound",
    "seconds",
)
"""The metrics of the first table."""

_TITLES = {
    "utility": "Utility",
    "records": "Records",
    "distance": "Distance to retraining",
    "membership": "Membership",
    "representation": "Representation",
    "relearning": "Relearning",
    "prompting": "Input prompt",
    "rebound": "Sequential requests",
    "spent": "Cost",
}


def headline(results: Results) -> Grid:
    """The few metrics to look at first."""
    known = results.measured()
    return _grid("Overview", [known[name] for name in HEADLINE if name in known], results)


def by_group(results: Results) -> list[Grid]:
    """All metrics, a table for each group."""
    groups: dict[str, list[Metric]] = {}
    for metric in results.measured().values():
        groups.setdefault(_title(metric), []).append(metric)
    return [_grid(title, of_group, results) for title, of_group in groups.items()]


def legend(chosen: Iterable[Metric], results: Results) -> Grid:
    """What each metric means, which way is better, what retraining gets, and what fools it."""
    rows = []
    for metric in chosen:
        unit = f" ({metric.unit})" if metric.unit else ""
        reference = results.shown(RETRAIN, metric.name)
        rows.append(
            (metric.title, f"{metric.about}{unit}", metric.direction, reference, in_words(results.fooled(metric)))
        )
    return Grid("Metrics", ("metric", "what it measures", "better", "retraining gets", "fooled by"), (tuple(rows),))


def report(results: Results, command: str) -> str:
    """Everything as Markdown."""
    known = results.measured()
    another = "another forgotten class" if results.request == "classes" else "other forgotten records"
    note = (
        f"Made by `{command}`. Mean ± standard deviation over {results.trials} trials, each with its own seeds and "
        f"{another}. The last row says which controls fool the column's metric: the control is nearer to "
        "retraining than to the original on it; `all` means that the original itself is as good as retraining there. "
        "`?`: could not be measured; `–`: no result."
    )
    lost = [f"- `{method}`: {reason}" for method in results.cells for reason in dict.fromkeys(results.diverged(method))]
    parts = [note, headline(results).markdown()]
    if lost:
        parts.append("† Diverged in at least one trial:\n\n" + "\n".join(lost))
    parts += [grid.markdown() for grid in by_group(results)]
    parts.append(legend(known.values(), results).markdown())
    return "\n\n".join(parts) + "\n"


def _grid(title: str, columns: Sequence[Metric], results: Results) -> Grid:
    def row(method: str) -> tuple[str, ...]:
        mark = " †" if results.diverged(method) else ""
        return (method + mark, *(results.shown(method, metric.name) for metric in columns))

    about = (
        ("better", *(metric.direction for metric in columns)),
        ("fooled by", *(in_words(results.fooled(metric)) for metric in columns)),
    )
    head = ("method", *(f"{m.title} ({m.unit})" if m.unit else m.title for m in columns))
    return Grid(title, head, (*(tuple(map(row, names)) for names in blocks(results.cells) if names), about))


def _title(metric: Metric) -> str:
    return _TITLES.get(metric.topic, metric.topic.replace("_", " ").capitalize())


def write_report(finished: Finished, command: str) -> Results:
    """Write all results of a comparison to its folder, and return them; `command` is named as their origin."""
    comparison = finished.comparison
    results = Results.read(comparison)
    write(results, comparison, seconds=finished.seconds)
    text = f"# Methods compared on {comparison.config.data}\n\n" + report(results, command)
    write_whole(comparison.folder / "report.md", lambda path: path.write_text(text))
    scorecard(comparison.folder / "scorecard.png", results)
    return results
