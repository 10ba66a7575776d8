"""The paper's tables, made from result files and from nothing else, with the paper's own numbers beside ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from unsc.bench.experiments import ABLATION
from unsc.bench.paper import Reported, reported
from unsc.bench.record import Record, records
from unsc.compare.render import Grid
from unsc.compare.table import Summary
from unsc.files import write_whole
from unsc.methods import methods

_DATA = ("fashion-mnist", "svhn", "cifar-10", "cifar-100")
_OURS = ("retain_test_acc", "forget_test_acc", "mia_confidence", "tug_of_war", "relearn_10")
_HEADS = ("retain %", "forget %", "MIA", "ToW", "relearn 10 %", "CPU s")
_BY_CLASS = {
    ("original", "original"): _OURS[:2],
    ("paper's step", "unsc_paper"): _OURS[:3],
    ("ours", "unsc"): _OURS[:3],
}
"""The columns of the table by class: methods and metrics."""


def write_tables(folder: Path) -> Path:
    """Write `README.md` into a folder of results."""
    found = list(records(folder))
    parts = [_HEADER]
    for data in ("toy", *_DATA):
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
    known = methods()
    names = list(dict.fromkeys(record.method for record in chosen))
    order = sorted(names, key=lambda name: (name in known and known[name].control, _place(name), name))
    rows = [_row(name, [r for r in chosen if r.method == name], reported("table1", data, name)) for name in order]
    return _table("All methods", chosen, "method", rows)


def ablation(data: str, found: Sequence[Record]) -> str:
    """Rows I to V, and ours."""
    chosen = [record for record in found if record.table == "ablation"]
    rows = []
    for name, method in ABLATION.items():
        of_row = [record for record in chosen if record.method == method]
        if of_row:
            rows.append(_row(f"{name}: {method}", of_row, reported("ablation", data, name)))
    return _table("Ablation", chosen, "row", rows) if rows else ""


def multiclass(data: str, found: Sequence[Record]) -> str:
    """By the number of classes."""
    chosen = [record for record in found if record.table == "multiclass"]
    rows = []
    for count in sorted({len(record.classes) for record in chosen}):
        for method in ("original", "retrain", "unsc_paper", "unsc", "logit_mask"):
            of_row = [r for r in chosen if r.method == method and len(r.classes) == count]
            if of_row:
                paper = reported("multiclass", data, str(count), method)
                rows.append(_row(f"{count} classes: {method}", of_row, paper))
    return _table("Several classes at once", chosen, "classes and method", rows) if rows else ""


def classes(data: str, found: Sequence[Record]) -> str:
    """Each class by itself: a row for each, and their mean."""
    chosen = [record for record in found if record.table == "classes"]
    if not chosen:
        return ""
    sets = sorted({record.classes for record in chosen})
    columns = {
        f"{name} {_HEADS[_OURS.index(metric)]}": _by_class(chosen, method, metric)
        for (name, method), metrics in _BY_CLASS.items()
        for metric in metrics
    }
    rows = [(", ".join(map(str, one)), *(_cell(column.get(one, [])) for column in columns.values())) for one in sets]
    mean = ("mean ± sd", *(_cell([x for values in column.values() for x in values]) for column in columns.values()))
    title = f"Each class by itself (n = {len(sets)}, one network, nothing tuned)"
    return Grid(title, ("class", *columns), (tuple(rows), (mean,))).markdown()


def _by_class(found: Sequence[Record], method: str, metric: str) -> dict[tuple[int, ...], list[float]]:
    """A metric of a method in all trials, by what was forgotten."""
    values: dict[tuple[int, ...], list[float]] = {}
    for record in found:
        if record.method == method and metric in record.values:
            values.setdefault(record.classes, []).append(record.values[metric])
    return values


def _cell(values: Sequence[float]) -> str:
    return str(Summary.of(values)) if values else "–"


def _row(name: str, found: Iterable[Record], paper: Reported | None) -> tuple[str, ...]:
    found = list(found)
    fallen = [record for record in found if record.diverged]
    cells = []
    for metric in _OURS:
        cells.append(_cell([record.values[metric] for record in found if metric in record.values]))
    seconds = _cell([record.cpu_seconds for record in found if record.cpu_seconds is not None])
    theirs = [f"{mean:.2f} ± {sd:.2f}" for mean, sd in (paper.retain, paper.forget)] if paper else ["", ""]
    return (f"{name} †" if fallen else name, *cells, seconds, *theirs)


def _table(title: str, found: Sequence[Record], first: str, rows: Sequence[tuple[str, ...]]) -> str:
    trials = len({record.trial for record in found})
    head = (first, *_HEADS, "paper: retain %", "paper: forget %")
    classes = "; ".join(dict.fromkeys(", ".join(map(str, r.classes)) for r in found)) if title == "All methods" else ""
    note = f"n = {trials} trial{'s' if trials > 1 else ''}" + (f", forgotten: {classes}" if classes else "")
    fallen = {f"{r.method}: {r.diverged}" for r in found if r.diverged}
    marks = f"\n\n† fell apart in at least one trial: {'; '.join(sorted(fallen))}." if fallen else ""
    return Grid(f"{title} ({note})", head, (tuple(rows),)).markdown() + marks


def _setting(found: Sequence[Record]) -> str:
    content = found[0].content
    network, protocol, config = content["network"], content["protocol"], content["config"]
    note = (content.get("files") or {}).get("note")
    return (f"{note.rstrip('.')}. " if note else "") + (
        f"{network['name']} at width {network['width']}, preset `{content['preset']}`: {protocol['epochs']} epochs "
        f"({protocol['schedule']}), batches of {protocol['batch_size']}, learning rate {protocol['lr']}. Methods "
        f"were given at most {config['retain_samples']} retained samples and tuned with {config['tune_trials']} tries "
        f"each on validation data. {content['hardware']['cores']} cores, {content['hardware']['machine']}, no GPU."
    )


def _pictures(folder: Path, data: str) -> list[str]:
    found = sorted((folder / data).glob("*.png"))
    return [f"![{path.stem.replace('_', ' ')}]({data}/{path.name})" for path in found]


def _place(name: str) -> int:
    first = ("original", "retrain", "unsc", "unsc_paper")
    return first.index(name) if name in first else len(first)


_HEADER = """# The paper's experiments

Made from the JSON files in this folder by `unsc bench render`; each file says how it came about. Accuracy on test data
in percent, mean ± standard deviation over trials. MIA: share of forgotten training samples that the paper's attack
takes for never seen. ToW: tug of war, 1 is like retraining. The paper's numbers are means over three trials of networks
trained for up to 200 epochs on a GPU; ours, with the preset `cpu`, are trained for a few, so that the level differs and
the comparison is that of each method with its own original. The three controls at the end of a table forget nothing."""
