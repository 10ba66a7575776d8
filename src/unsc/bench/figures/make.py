"""Figures into a folder of results: numbers are measured once, pictures are drawn from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from unsc.bench.figures import classes, contour, latent, mia, pseudo, toy
from unsc.bench.record import Record, records
from unsc.errors import InvalidData, InvalidRequest, UnscError
from unsc.storage.files import write_whole

_DRAW: dict[str, Callable[[dict[str, Any], Path], None]] = {
    "toy": toy.draw,
    "pseudo": pseudo.draw,
    "contour": contour.draw,
    "latent": latent.draw,
}


def measure_missing(measures: Mapping[str, Callable[[], dict[str, Any]]], folder: Path) -> dict[str, str]:
    """Write `figures/NAME.json` for each figure that `folder` lacks; gives those that failed, with the reason."""
    failed = {}
    for name, measure in measures.items():
        path = folder / "figures" / f"{name}.json"
        if not path.exists():
            try:
                _write(path, measure())
            except UnscError as e:
                failed[name] = str(e)
    return failed


def draw_all(out: Path) -> list[Path]:
    """Every picture that the files in a folder of results allow for."""
    drawn = []
    for source in sorted(out.glob("*/figures/*.json")):
        if source.stem in _DRAW:
            drawn.append(source.parent.parent / f"{source.stem}.png")
            _draw(source, drawn[-1])
    by_data: dict[str, list[Record]] = {}
    for record in records(out):
        by_data.setdefault(record.data, []).append(record)
    for data, found in by_data.items():
        drawn += _class_accuracy(found, out / data)
        with suppress(InvalidRequest):  # no results of the attack
            drawn.append(draw_mia(found, out / data))
    return drawn


def draw_mia(found: list[Record], folder: Path) -> Path:
    """The membership attack on a data set's results."""
    content = mia.measure(found)
    if not content["values"]:
        command = f"unsc bench table1 --data {folder.name}".replace("@", " --preset ")
        raise InvalidRequest(f"there are no results of the membership attack in {folder}; run {command}")
    path = folder / "mia.png"
    mia.draw(content, path)
    return path


def _class_accuracy(found: list[Record], folder: Path) -> list[Path]:
    """One picture for the table of all methods, and one for each number of classes."""
    drawn = []
    kinds = {(record.table, len(record.classes)) for record in found if record.table in ("table1", "multiclass")}
    for table, count in sorted(kinds):
        chosen = [record for record in found if (record.table, len(record.classes)) == (table, count)]
        content = classes.measure(chosen)
        if content["accuracy"]:
            drawn.append(folder / ("classes.png" if table == "table1" else f"classes-{count:02}.png"))
            classes.draw(content, drawn[-1])
    return drawn


def _draw(source: Path, path: Path) -> None:
    try:
        _DRAW[source.stem](json.loads(source.read_text()), path)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as e:
        raise InvalidData(f"{source} cannot be drawn ({e!r}); remove it, and run unsc bench figures again") from e


def _write(path: Path, content: dict[str, Any]) -> None:
    """JSON with a line for each entry: thousands of coordinates on lines of their own would help nobody."""
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in content.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    write_whole(path, lambda p: p.write_text(text))
