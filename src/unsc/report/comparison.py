"""Methods that were compared: a folder of `unsc compare`, or the results of `unsc bench table1` and its like."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unsc.bench.results import Result, read_results
from unsc.compare.comparison import ORIGINAL, RETRAIN
from unsc.compare.order import controls_for
from unsc.compare.plan import current_names
from unsc.compare.results import Results
from unsc.errors import InvalidData
from unsc.methods.shared.registry import base_name
from unsc.storage.files import read_json

_CONFIG, _JSON, _CSV = "config.json", "results.json", "results.csv"


@dataclass(frozen=True)
class ComparisonRun:
    """Methods, each with what was measured of it in every trial."""

    name: str
    results: Results
    about: str
    """On what, and how thoroughly."""


def is_comparison(folder: Path) -> bool:
    """Whether a folder is that of `unsc compare`."""
    path = folder / _CONFIG
    return path.exists() and read_json(path).get("kind") == "comparison"


def read_comparison(folder: Path) -> ComparisonRun:
    """The comparison in a folder, from `results.json` or else from `results.csv`."""
    config = current_names(read_json(folder / _CONFIG)["config"])
    if (folder / _JSON).exists():
        cells = _by_method(read_json(folder / _JSON)["cells"])
    elif (folder / _CSV).exists():
        cells = _by_method(_from_csv(folder / _CSV))
    else:
        raise InvalidData(f"{folder} has neither {_JSON} nor {_CSV}; let `unsc compare` finish, which writes them")
    tries = config["tune_tries"]
    tuned = f"settings chosen among up to {tries} on validation data" if tries else "published settings"
    request = config.get("request", "classes")
    about = f"{config['data']}, {request} forgotten, {config['trials']} trials, {tuned}"
    return ComparisonRun(folder.name or str(folder.resolve()), Results(cells, config["trials"], request), about)


def _by_method(cells: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for cell in cells:
        found.setdefault(cell["method"], []).append(cell)
    return found


def _from_csv(path: Path) -> list[dict[str, Any]]:
    """Results by trial and method; why one diverged is not in this file."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    with path.open(newline="") as f:
        for row in csv.DictReader(f):
            empty = {"trial": int(row["trial"]), "method": row["method"], "diverged": None}
            empty["measured"] = {"values": {}, "skipped": {}}
            cell = found.setdefault((row["trial"], row["method"]), empty)
            cell["measured"]["values"][row["metric"]] = {"value": float(row["value"])}
    return list(found.values())


def is_bench(folder: Path) -> bool:
    """Whether a folder holds results that `unsc bench` kept."""
    return next(folder.glob("*/*/trial-*/*.json"), None) is not None


def read_bench(folder: Path) -> list[ComparisonRun]:
    """A comparison for each table of each data set."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in read_results(folder):
        groups.setdefault((result.data, result.table), []).append(result)
    return [_of_group(data, table, found) for (data, table), found in groups.items()]


def _of_group(data: str, table: str, found: list[Result]) -> ComparisonRun:
    several = len({len(result.classes) for result in found}) > 1
    order: dict[tuple[int, tuple[int, ...]], int] = {}
    cells = []
    for result in found:
        trial = order.setdefault((result.trial, result.classes), len(order))
        count = f"[{len(result.classes)} classes]" if several else ""
        cells.append({**result.content, "method": result.method + count, "trial": trial})
    network = found[0].content["network"]["name"]
    about = f"{data}, {network}, {len(order)} requests, one network for each trial"
    return ComparisonRun(f"{data}: {table}", Results(_by_method(cells), len(order)), about)


_ROLES = {ORIGINAL: "original", RETRAIN: "retrained", "unsc": "result"}


def role(run: ComparisonRun, method: str) -> str:
    """What a method is in a comparison, whatever its settings in brackets."""
    plain = base_name(method)
    return "control" if plain in controls_for(run.results.request) else _ROLES.get(plain, "method")
