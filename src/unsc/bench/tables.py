"""The paper's tables, made from result files and from nothing else, with the paper's own numbers beside ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from unsc.bench.experiments import ABLATION
from unsc.bench.paper import reported
from unsc.bench.presets import PRESETS
from unsc.bench.record import Record, records, said_of_attacks
from unsc.compare.cells import ORIGINAL
from unsc.compare.order import blocks
from unsc.compare.render import Grid
from unsc.compare.table import Summary
from unsc.storage.files import write_whole

_OURS = ("retain_test_acc", "forget_test_acc", "mia_confidence", "tug_of_war", "agreement_forget")
_HEADS = ("retain %", "forget %", "MIA", "ToW", "alike %", "CPU s")
_BY_CLASS: dict[str, tuple[str, Callable[[Record], float | None]]] = {
    "original retain %": (ORIGINAL, lambda record: record.values.get("retain_test_acc")),
    "original forget %": (ORIGINAL, lambda record: record.values.get("forget_test_acc")),
    "ours retain %": ("unsc", lambda record: record.values.get("retain_test_acc")),
    "ours forget %": ("unsc", lambda record: record.values.get("forget_test_acc")),
    "ours MIA": ("unsc", lambda record: record.values.get("mia_confidence")),
    "passes": ("unsc", lambda record: record.content.get("noted", {}).get("passes")),
    "CPU s": ("unsc", lambda record: record.cpu_seconds),
}
"""The columns of the table by class: the method, and what is shown of it."""

_LIMITS = {"retained": "retain_samples", "forgotten": "forget_samples"}


def write_tables(folder: Path) -> Path:
    """Write `README.md` into a folder of results."""
    found = list(records(folder))
    parts = [_HEADER]
    for data in sorted((path.name for path in folder.iterdir() if path.is_dir()), key=_order):
        of_data, pictures = [record for record in found if record.data == data], _pictures(folder, data)
        if of_data or pictures:
            parts += [f"## {data}"] + ([_setting(of_data)] if of_data else [])
            parts += [text for make in (table1, ablation, multiclass, classes) if (text := make(data, of_data))]
            parts += pictures
    path = folder / "README.md"
    text = "\n\n".join(parts) + "\n"
    write_whole(path, lambda p: p.write_text(text))
    return path


def table1(data: str, found: Sequence[Record]) -> str:
    """All methods, with the paper's two accuracies."""
    chosen = [record for record in found if record.table == "table1"]
    if not chosen:
        return ""
    order = blocks(record.method for record in chosen).all
    rows = [_Row(name, [r for r in chosen if r.method == name], ("table1", _plain(data), name)) for name in order]
    forgotten = "; ".join(dict.fromkeys(", ".join(map(str, record.classes)) for record in chosen))
    return _table(f"All methods, forgotten: {forgotten}", chosen, "method", rows)


def ablation(data: str, found: Sequence[Record]) -> str:
    """Rows I to V, and ours."""
    chosen = [record for record in found if record.table == "ablation"]
    rows = []
    for name, (method, words) in ABLATION.items():
        of_row = [record for record in chosen if record.method == method]
        if of_row:
            rows.append(_Row(f"{name}: {words}", of_row, ("ablation", _plain(data), name)))
    return _table("Ablation", chosen, "row", rows) if rows else ""


def multiclass(data: str, found: Sequence[Record]) -> str:
    """By the number of classes."""
    chosen = [record for record in found if record.table == "multiclass"]
    rows = []
    for count in sorted({len(record.classes) for record in chosen}):
        for method in ("original", "retrain", "unsc_paper", "unsc", "logit_mask"):
            of_row = [r for r in chosen if r.method == method and len(r.classes) == count]
            if of_row:
                title = f"{count} class{'es' if count > 1 else ''}: {method}"
                rows.append(_Row(title, of_row, ("multiclass", _plain(data), str(count), method)))
    return _table("Several classes at once", chosen, "classes and method", rows) if rows else ""


def classes(data: str, found: Sequence[Record]) -> str:
    """Each class by itself: a row for each, and their mean."""
    chosen = [record for record in found if record.table == "classes"]
    if not chosen:
        return ""
    sets = sorted({record.classes for record in chosen})
    columns = {name: _by_class(chosen, *column) for name, column in _BY_CLASS.items()}
    rows = [(", ".join(map(str, one)), *(_cell(column.get(one, [])) for column in columns.values())) for one in sets]
    mean = ("mean ± sd", *(_cell([x for values in column.values() for x in values]) for column in columns.values()))
    many = max(map(len, sets))
    what = f"{many} classes at a time" if many > 1 else "Each class by itself"
    title = f"{what} (n = {len(sets)}, one network, nothing tuned)"
    return Grid(title, ("forgotten", *columns), (tuple(rows), (mean,))).markdown() + _remarks(chosen)


def _by_class(
    found: Sequence[Record], method: str, shown: Callable[[Record], float | None]
) -> dict[tuple[int, ...], list[float]]:
    """What is shown of a method in all trials, by what was forgotten."""
    values: dict[tuple[int, ...], list[float]] = {}
    for record in found:
        if record.method == method and (value := shown(record)) is not None:
            values.setdefault(record.classes, []).append(value)
    return values


def _cell(values: Sequence[float]) -> str:
    return str(Summary.of(values)) if values else "–"


@dataclass(frozen=True)
class _Row:
    """A method's results, and where the paper's are."""

    name: str
    found: Sequence[Record]
    paper: tuple[str, ...]

    def cells(self, originals: Mapping[tuple, Record]) -> tuple[str, ...]:
        """The gain is what is retained better than by the original of the same trial, in points of accuracy."""
        fallen = any(record.diverged for record in self.found)
        values = [_cell([r.values[metric] for r in self.found if metric in r.values]) for metric in _OURS]
        gains = [
            record.values[_OURS[0]] - originals[_request(record)].values[_OURS[0]]
            for record in self.found
            if record.method != ORIGINAL and _OURS[0] in record.values and _request(record) in originals
        ]
        seconds = _cell([record.cpu_seconds for record in self.found if record.cpu_seconds is not None])
        name = f"{self.name} †" if fallen else self.name
        return (name, values[0], _signed(gains), *values[1:], seconds, *self._theirs())

    def _theirs(self) -> tuple[str, ...]:
        paper = reported(*self.paper)
        if paper is None:
            return ("", "", "")
        accuracies = [f"{mean:.2f} ± {sd:.2f}" for mean, sd in (paper.retain, paper.forget)]
        original = reported(*self.paper[:-1], "I" if self.paper[0] == "ablation" else ORIGINAL)
        itself = original is None or self.paper[-1] in ("I", ORIGINAL)
        gain = "" if itself else f"{paper.retain[0] - original.retain[0]:+.2f}"  # type: ignore[union-attr]
        return (accuracies[0], gain, accuracies[1])


def _request(record: Record) -> tuple:
    return record.trial, record.classes


def _signed(values: Sequence[float]) -> str:
    return ("+" if fmean(values) > 0 else "") + _cell(values) if values else ""


def _table(title: str, found: Sequence[Record], first: str, rows: Sequence[_Row]) -> str:
    trials = len({record.trial for record in found})
    head = (first, _HEADS[0], "gain", *_HEADS[1:], "paper: retain %", "paper: gain", "paper: forget %")
    tries = found[0].content["config"]["tune_trials"]
    tuned = f"settings chosen among up to {tries} on validation data" if tries else "nothing tuned"
    note = f"n = {trials} trial{'s' if trials > 1 else ''}, {tuned}"
    originals = {_request(record): record for record in found if record.method == ORIGINAL}
    return Grid(f"{title} ({note})", head, (tuple(row.cells(originals) for row in rows),)).markdown() + _remarks(found)


def _remarks(found: Sequence[Record]) -> str:
    """What has to be known to read a table: what methods were given, how good the attack is, what fell apart."""
    config = found[0].content["config"]
    limits = [f"{most} {what}" for what, key in _LIMITS.items() if (most := config.get(key))]
    given = [f"at most {' and '.join(limits)} training samples"] if limits else []
    given += [f"`{name}={value}`" for name, value in config["settings"]]
    fallen = sorted({f"{r.method}: {r.diverged}" for r in found if r.diverged})
    remarks = [
        f"Methods were given {', '.join(given)}." if given else "",
        said_of_attacks(found),
        f"† fell apart in at least one trial: {'; '.join(fallen)}." if fallen else "",
    ]
    return "".join(f"\n\n{remark}" for remark in remarks if remark)


def _setting(found: Sequence[Record]) -> str:
    """What the networks were, and what differs from the paper."""
    content = found[0].content
    network, hardware = content["network"], content["hardware"]
    theirs = PRESETS["paper"][_plain(content["data"])]
    note = (content.get("files") or {}).get("note")
    lines = [f"{note.rstrip('.')}."] if note else []
    lines += [
        f"Preset `{content['preset']}`: {_training(network['name'], network['width'], content['protocol'])}.",
        f"The paper: {_training(theirs.network, theirs.width, asdict(theirs.protocol))}, three trials, on a GPU.",
        f"{hardware['cores']} cores, {hardware['machine']}, {hardware['cuda'] or 'no GPU'}.",
    ]
    return " ".join(lines)


def _training(network: str, width: float, protocol: Mapping[str, Any]) -> str:
    most = "at most " if protocol["patience"] else ""
    return (
        f"{network} at width {width:g}, {most}{protocol['epochs']} epochs ({protocol['schedule']}), batches of "
        f"{protocol['batch_size']}, learning rate {protocol['lr']:g}"
    )


def _pictures(folder: Path, data: str) -> list[str]:
    found = sorted((folder / data).glob("*.png"))
    return [f"![{path.stem.replace('_', ' ')}]({data}/{path.name})" for path in found]


def _plain(data: str) -> str:
    """The data set's name without the preset."""
    return data.partition("@")[0]


def _order(data: str) -> tuple[int, str]:
    """The paper's data sets in its order, what is not among them first."""
    names = list(PRESETS["cpu"])
    return (names.index(_plain(data)) if _plain(data) in names else -1, data)


_HEADER = """# The paper's experiments

Made from the JSON files in this folder by `unsc bench render`; each file says how it came about. Accuracy on test data
in percent, mean ± standard deviation over trials; a value without ± is of one trial. Gain: points of retained accuracy
above the same trial's original. MIA: share of forgotten training samples that the paper's attack takes for never seen.
ToW: tug of war, 1 is like retraining. Alike: forgotten test samples that are classified as the retrained network does.
CPU s: time that processors worked. Networks of the preset `cpu` are trained for a few epochs, so that the level differs
from the paper's, and gains are what to compare. The three controls at the end of a table forget nothing. `unsc` is
ours, `unsc_paper` the paper's step."""
