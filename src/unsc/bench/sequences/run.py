"""Forget classes one after the other, each one's data deleted afterwards, and all of them at once beside it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.utils.data import TensorDataset

from unsc.api import forget
from unsc.bench.datasets import Split
from unsc.bench.sequences.setups import SEEDS, SETUPS
from unsc.compare.grid import Grid
from unsc.errors import NotForgottenWarning, unknown
from unsc.progress import Progress, quiet
from unsc.request import of_classes
from unsc.result import Forgotten
from unsc.storage.files import write_json
from unsc.storage.versions import versions

Row: TypeAlias = dict[str, Any]
"""What was measured of one sequence, by name; shares in percent of test samples."""
COLUMNS = {
    "worst": "worst class that was forgotten",
    "taken_for_gone": "taken for one of them",
    "retain": "what stays",
    "retain_at_once": "all at once",
    "retain_original": "original",
}


def run_sequences(
    names: Sequence[str], out: Path, *, fresh: bool = False, progress: Progress = quiet
) -> Iterator[Grid]:
    """Measure the networks `names`, by default all, and give the table of each.

    Rows are written to `out` as `NAME.json` as they are measured; those that are there are not repeated unless the
    run is to start `fresh`.
    """
    for name in names:
        if name not in SETUPS:
            raise unknown("network", name, SETUPS)
    for name in names or SETUPS:
        path = out / f"{name}.json"
        if fresh:
            path.unlink(missing_ok=True)
        yield table(name, _rows(name, path, progress))


def _rows(name: str, path: Path, progress: Progress) -> list[Row]:
    setup = SETUPS[name]
    rows: list[Row] = json.loads(path.read_text())["rows"] if path.exists() else []
    known = {(row["seed"], tuple(row["order"])) for row in rows}
    data = setup.data()
    for seed in SEEDS:
        missing = [order for order in setup.orders if (seed, order) not in known]
        if not missing:
            continue
        model = setup.trained(data, seed)
        for order in missing:
            rows.append({"seed": seed, "order": order} | measure(model, data, order, progress=progress))
            write_json(path, {"network": name, "versions": versions(), "rows": rows})
    return rows


def measure(model: nn.Module, data: Split, order: Sequence[int], *, progress: Progress = quiet) -> Row:
    """One sequence from the network `model`, beside the same classes forgotten at once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotForgottenWarning)  # the row says how far it came
        last: nn.Module | Forgotten = model
        states = []
        for i, k in enumerate(order):
            last = forget(last, _without(data.train, order[:i]), classes=[k], progress=progress)
            states.append(last.metrics.status)
        at_once = forget(model, data.train, classes=order, progress=progress)
    final = last.model if isinstance(last, Forgotten) else last
    before, together = _scores(model, data, order), _scores(at_once.model, data, order)
    return _scores(final, data, order) | {
        "status": states,
        "retain_at_once": together["retain"],
        "retain_original": before["retain"],
        "status_at_once": at_once.metrics.status,
    }


def _without(data: TensorDataset, classes: Sequence[int]) -> TensorDataset:
    inputs, labels = data.tensors
    left = ~of_classes(labels, classes)
    return TensorDataset(inputs[left], labels[left])


@torch.no_grad()
def _scores(model: nn.Module, data: Split, forgotten: Sequence[int]) -> dict[str, float]:
    inputs, labels = data.test.tensors
    said = model(inputs).argmax(dim=1)
    stays = ~of_classes(labels, forgotten)
    return {
        "worst": max(_percent(said[labels == k] == k) for k in forgotten),
        "taken_for_gone": _percent(of_classes(said, forgotten)),
        "retain": _percent(said[stays] == labels[stays]),
    }


def _percent(hits: torch.Tensor) -> float:
    return 100 * hits.double().mean().item()


def table(name: str, rows: Sequence[Row]) -> Grid:
    """A line for each sequence."""
    lines = [
        (f"{', '.join(map(str, row['order']))} (seed {row['seed']})", *(f"{row[c]:.2f}" for c in COLUMNS))
        for row in rows
    ]
    return Grid(f"{name}: percent of test samples", ("order", *COLUMNS.values()), (tuple(lines),))
