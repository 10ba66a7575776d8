"""Forget each class of a setup in turn, by every step rule."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from statistics import mean, stdev
from typing import Any, TypeAlias

import torch
from torch.utils.data import TensorDataset

from unsc.api import forget
from unsc.batches import as_batch
from unsc.bench.steps.setups import Setup
from unsc.compare.grid import Grid
from unsc.errors import NotForgottenWarning
from unsc.evaluation import evaluate
from unsc.logits import all_logits
from unsc.methods.logit_mask import LogitMask
from unsc.progress import Progress, quiet
from unsc.storage.files import write_json
from unsc.storage.versions import versions

Row: TypeAlias = dict[str, Any]
"""What was measured of one method that forgot one class, by name; accuracy in percent of the test data."""

_COLUMNS = ("retain_test_acc", "forget_test_acc", "retained_kl", "drift_max", "passes", "seconds")


def run(setup: Setup, path: Path, *, progress: Progress = quiet) -> list[Row]:
    """Every row of a setup. Each is written to `path` once it is measured; those that are there are not repeated."""
    rows = json.loads(path.read_text())["rows"] if path.exists() else references(setup)
    known = {(row["forget"], row["method"]) for row in rows}
    for method in setup.methods:
        for k in setup.classes:
            if (k, method) not in known:
                rows.append(measure(setup, k, method, progress=progress))
                about = {"case": setup.name, "options": setup.methods, "versions": versions()}
                write_json(path, {**about, "rows": rows})
    return rows


def measure(setup: Setup, k: int, method: str, *, progress: Progress = quiet) -> Row:
    """One row: class `k` forgotten by a method, and test accuracy afterwards."""
    images, labels = setup.data.test.tensors
    gone = labels == k
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotForgottenWarning)  # the row says how far it came
        result = forget(setup.model, setup.data.train, classes=[k], progress=progress, **setup.methods[method])
    scores = evaluate(
        result.model,
        retain_test=TensorDataset(images[~gone], labels[~gone]),
        forget_test=TensorDataset(images[gone], labels[gone]),
    )
    measured = {name: v for name, v in result.metrics.to_dict().items() if name not in ("history", "drift", "promise")}
    accuracy = {"retain_test_acc": scores.retain_test_acc, "forget_test_acc": scores.forget_test_acc}
    return {"forget": k, "method": method} | measured | accuracy


@torch.no_grad()
def references(setup: Setup) -> list[Row]:
    """Rows of the original and of the logit mask, a control that forgets nothing, from one look at the test data."""
    batch = as_batch(setup.data.test[:])
    logits = all_logits(setup.model, batch)
    rows = []
    for method in ("original", "logit_mask"):
        for k in setup.classes:
            shown = logits if method == "original" else LogitMask(torch.nn.Identity(), [k])(logits)
            right = (shown.argmax(dim=1) == batch.labels).double() * 100
            gone = batch.labels == k
            accuracy = {"retain_test_acc": right[~gone].mean().item(), "forget_test_acc": right[gone].mean().item()}
            rows.append({"forget": k, "method": method} | accuracy)
    return rows


def table(setup: Setup, rows: list[Row]) -> Grid:
    """A block for each method: each class's row, then mean and standard deviation over classes."""
    blocks = []
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        block = [(f"{method}: {row['forget']}", *(_number(row.get(c)) for c in _COLUMNS)) for row in own]
        if len(own) > 1:
            columns = [[row[c] for row in own if c in row] for c in _COLUMNS]
            spread = [f"{mean(v):.3f} ± {stdev(v):.3f}" if v else "" for v in columns]
            block.append((f"{method}: mean", *spread))
        blocks.append(tuple(block))
    title = f"{setup.name}: each class forgotten in turn (n = {len(setup.classes)})"
    return Grid(title, ("method: class", *_COLUMNS), tuple(blocks))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}" if value < 1 else f"{value:.2f}"
