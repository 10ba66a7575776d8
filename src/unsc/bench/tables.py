"""The paper's tables, made from result files and from nothing else, with the paper's own numbers beside ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from unsc.bench.data.shared.image_data import DATA
from unsc.bench.experiments import ABLATION
from unsc.bench.outdated import outdated, said_of_versions
from unsc.bench.paper import data_sets, reported
from unsc.bench.presets import Preset
from unsc.bench.results import Result, read_results, said_of_attacks
from unsc.compare.comparison import ORIGINAL
from unsc.compare.grid import Grid
from unsc.compare.order import blocks
from unsc.compare.results import Summary
from unsc.compare.scenarios import parse_name
from unsc.storage.files import write_whole

_OURS = ("retain_test_acc", "forget_test_acc", "mia_confidence", "tug_of_war", "agreement_forget")
_HEADS = ("retain %", "forget %", "MIA", "ToW", "alike %", "CPU s")
_BY_CLASS: dict[str, tuple[str, Callable[[Result], float | None]]] = {
    "original retain %": (ORIGINAL, lambda result: result.values.get("retain_test_acc")),
    "original forget %": (ORIGINAL, lambda result: result.values.get("forget_test_acc")),
    "ours retain %": ("unsc", lambda result: result.values.get("retain_test_acc")),
    "ours forget %": ("unsc", lambda result: result.values.get("forget_test_acc")),
    "ours MIA": ("unsc", lambda result: result.values.get("mia_confidence")),
    "passes": ("unsc", lambda result: result.content.get("noted", {}).get("passes")),
    "CPU s": ("unsc", lambda result: result.cpu_seconds),
}
"""The columns of the table by class: the method, and what is shown of it."""

_LIMITS = {"retained": "retain_samples", "forgotten": "forget_samples"}


def write_tables(folder: Path) -> Path:
    """Write `README.md` into a folder of results."""
    found = list(read_results(folder))
    parts = [_HEADER]
    for data in sorted((path.name for path in folder.iterdir() if path.is_dir()), key=_order):
        of_data, pictures = [result for result in found if result.data == data], _pictures(folder, data)
        if of_data or pictures:
            parts += [f"## {data}"] + ([_setting(of_data)] if of_data else [])
            parts += [text for make in (table1, ablation, multiclass, classes) if (text := make(data, of_data))]
            parts += pictures
    path = folder / "README.md"
    text = "\n\n".join(parts) + "\n"
    write_whole(path, lambda p: p.write_text(text))
    return path


def table1(data: str, found: Sequence[Result]) -> str:
    """All methods, with the paper's two accuracies."""
    chosen = [result for result in found if result.table == "table1"]
    if not chosen:
        return ""
    order = blocks(result.method for result in chosen).all
    rows = [_Row(name, [r for r in chosen if r.method == name], ("table1", _plain(data), name)) for name in order]
    forgotten = "; ".join(dict.fromkeys(", ".join(map(str, result.classes)) for result in chosen))
    return _table(f"All methods, forgotten: {forgotten}", chosen, "method", rows)


def ablation(data: str, found: Sequence[Result]) -> str:
    """Rows I to V, and ours."""
    chosen = [result for result in found if result.table == "ablation"]
    rows = []
    for name, row in ABLATION.items():
        of_row = [result for result in chosen if result.method in row.names]
        if of_row:
            rows.append(_Row(f"{name}: {row.about}", of_row, ("ablation", _plain(data), name)))
    return _table("Ablation", chosen, "row", rows) if rows else ""


def multiclass(data: str, found: Sequence[Result]) -> str:
    """By the number of classes, with a retrained network or without."""
    chosen = [result for result in found if result.table in ("multiclass", "several")]
    rows = []
    for count in sorted({len(result.classes) for result in chosen}):
        for method in ("original", "retrain", "unsc_paper", "unsc", "logit_mask"):
            of_row = [r for r in chosen if r.method == method and len(r.classes) == count]
            if of_row:
                title = f"{count} class{'es' if count > 1 else ''}: {method}"
                rows.append(_Row(title, of_row, ("multiclass", _plain(data), str(count), method)))
    return _table("Several classes at once", chosen, "classes and method", rows) if rows else ""


def classes(data: str, found: Sequence[Result]) -> str:
    """Each class by itself: a row for each, and their mean."""
    chosen = [result for result in found if result.table == "classes"]
    if not chosen:
        return ""
    sets = sorted({result.classes for result in chosen})
    columns = {name: _by_class(chosen, *column) for name, column in _BY_CLASS.items()}
    rows = [(", ".join(map(str, one)), *(_cell(column.get(one, [])) for column in columns.values())) for one in sets]
    mean = ("mean ± sd", *(_cell([x for values in column.values() for x in values]) for column in columns.values()))
    many = max(map(len, sets))
    what = f"{many} classes at a time" if many > 1 else "Each class by itself"
    old = " ‡" if any(map(outdated, chosen)) else ""
    title = f"{what}{old} (n = {len(sets)}, one network, nothing tuned)"
    return Grid(title, ("forgotten", *columns), (tuple(rows), (mean,))).markdown() + _remarks(chosen)


def _by_class(
    found: Sequence[Result], method: str, shown: Callable[[Result], float | None]
) -> dict[tuple[int, ...], list[float]]:
    """What is shown of a method in all trials, by what was forgotten."""
    values: dict[tuple[int, ...], list[float]] = {}
    for result in found:
        if result.method == method and (value := shown(result)) is not None:
            values.setdefault(result.classes, []).append(value)
    return values


def _cell(values: Sequence[float]) -> str:
    return str(Summary.of(values)) if values else "–"


@dataclass(frozen=True)
class _Row:
    """A method's results, and where the paper's are."""

    name: str
    found: Sequence[Result]
    paper: tuple[str, ...]

    def cells(self, originals: Mapping[tuple, Result]) -> tuple[str, ...]:
        """The gain is what is retained better than by the original of the same trial, in points of accuracy."""
        diverged = any(result.diverged for result in self.found)
        values = [self._shown(metric) for metric in _OURS]
        gains = [
            result.values[_OURS[0]] - originals[_request(result)].values[_OURS[0]]
            for result in self.found
            if result.method != ORIGINAL and _OURS[0] in result.values and _request(result) in originals
        ]
        seconds = _cell([result.cpu_seconds for result in self.found if result.cpu_seconds is not None])
        marks = [mark for mark, holds in (("†", diverged), ("‡", any(map(outdated, self.found)))) if holds]
        return (" ".join([self.name, *marks]), values[0], _signed(gains), *values[1:], seconds, *self._theirs())

    def _shown(self, metric: str) -> str:
        unknown = any(metric in result.content["measured"]["skipped"] for result in self.found)
        values = [result.values[metric] for result in self.found if metric in result.values]
        return "?" if unknown and not values else _cell(values)

    def _theirs(self) -> tuple[str, ...]:
        paper = reported(*self.paper)
        if paper is None:
            return ("", "", "")
        accuracies = [f"{mean:.2f} ± {sd:.2f}" for mean, sd in (paper.retain, paper.forget)]
        original = reported(*self.paper[:-1], "I" if self.paper[0] == "ablation" else ORIGINAL)
        itself = self.paper[-1] in ("I", ORIGINAL)
        gain = "" if original is None or itself else f"{paper.retain[0] - original.retain[0]:+.2f}"
        return (accuracies[0], gain, accuracies[1])


def _request(result: Result) -> tuple:
    return result.trial, result.classes


def _signed(values: Sequence[float]) -> str:
    return ("+" if fmean(values) > 0 else "") + _cell(values) if values else ""


def _table(title: str, found: Sequence[Result], first: str, rows: Sequence[_Row]) -> str:
    trials = len({result.trial for result in found})
    head = (first, _HEADS[0], "gain", *_HEADS[1:], "paper: retain %", "paper: gain", "paper: forget %")
    tries = found[0].config["tune_tries"]
    tuned = f"settings chosen among up to {tries} on validation data" if tries else "nothing tuned"
    note = f"n = {trials} trial{'s' if trials > 1 else ''}, {tuned}"
    originals = {_request(result): result for result in found if result.method == ORIGINAL}
    return Grid(f"{title} ({note})", head, (tuple(row.cells(originals) for row in rows),)).markdown() + _remarks(found)


def _remarks(found: Sequence[Result]) -> str:
    """What has to be known to read a table: what methods were given, how good the attack is, what diverged."""
    config = found[0].config
    limits = [f"{most} {what}" for what, key in _LIMITS.items() if (most := config.get(key))]
    given = [f"at most {' and '.join(limits)} training samples"] if limits else []
    given += [f"`{name}={', '.join(values)}`" for name, values in _settings(found).items()]
    diverged = sorted({f"{r.method}: {r.diverged}" for r in found if r.diverged})
    remarks = [
        f"Methods were given {', '.join(given)}." if given else "",
        said_of_attacks(found),
        f"† diverged in at least one trial: {'; '.join(diverged)}." if diverged else "",
        said_of_versions(found),
    ]
    return "".join(f"\n\n{remark}" for remark in remarks if remark)


def _settings(found: Sequence[Result]) -> dict[str, list[str]]:
    """What was given instead of tuned, by name: all values, where they differ between experiments."""
    values: dict[str, dict[str, None]] = {}
    for result in found:
        for name, value in result.config["settings"]:
            values.setdefault(name, {})[str(value)] = None
    return {name: list(of_name) for name, of_name in values.items()}


def _setting(found: Sequence[Result]) -> str:
    """What the networks were, and what differs from the paper."""
    content = found[0].content
    network, hardware = content["network"], content["hardware"]
    theirs = _paper_preset(_plain(content["data"]))
    note = (content.get("files") or {}).get("note")
    lines = [f"{note.rstrip('.')}."] if note else []
    ours = _training(network["name"], network["width"], content["protocol"])
    lines.append(f"Preset `{content['preset']}`: {ours}.")
    if theirs is not None:
        trained = _training(theirs.network, theirs.width, asdict(theirs.protocol))
        lines.append(f"The paper: {trained}, three trials, on a GPU.")
    lines.append(f"{hardware['cores']} cores, {hardware['machine']}, {hardware['cuda'] or 'no GPU'}.")
    return " ".join(lines)


def _paper_preset(data: str) -> Preset | None:
    """How the paper trains; None for other data sets, and for results whose data set is no longer known."""
    known = DATA.all()
    return known[data].presets.get("paper") if data in known else None


def _training(network: str, width: float, protocol: Mapping[str, Any]) -> str:
    most = "at most " if protocol["patience"] else ""
    rounded = ", in bfloat16" if protocol.get("precision") == "bfloat16" else ""
    return (
        f"{network} at width {width:g}, {most}{protocol['epochs']} epochs ({protocol['schedule']}), batches of "
        f"{protocol['batch_size']}, learning rate {protocol['lr']:g}{rounded}"
    )


def _pictures(folder: Path, data: str) -> list[str]:
    found = sorted((folder / data).glob("*.png"))
    return [f"![{path.stem.replace('_', ' ')}]({data}/{path.name})" for path in found]


def _plain(data: str) -> str:
    """The data set's name without the preset."""
    return parse_name(data)[0]


def _order(data: str) -> tuple[int, str]:
    """The paper's data sets in its order, what is not among them first."""
    names = data_sets()
    return (names.index(_plain(data)) if _plain(data) in names else -1, data)


_HEADER = """# The paper's experiments

Made from the JSON files in this folder by `unsc bench render`; each file says how it came about. Accuracy on test data
in percent, mean ± standard deviation over trials; a value without ± is of one trial. Gain: points of retained accuracy
above the same trial's original. MIA: share of forgotten training samples that the paper's attack takes for never seen.
ToW: tug of war, 1 is like retraining. Alike: forgotten test samples that are classified as the retrained network does.
CPU s: time that processors worked. Networks of the preset `cpu` are trained for a few epochs, so that the level differs
from the paper's, and gains are what to compare. The three controls at the end of a table forget nothing. `unsc` is
ours, `unsc_paper` the paper's step. `?`: not known, since retraining is not compared with itself."""
