"""Forget single records of digits, by both steps, beside a network retrained without them."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from torch import nn

from unsc.api import forget
from unsc.batches import as_batch
from unsc.bench.networks import digits_cnn
from unsc.bench.steps.by_class import Row
from unsc.bench.steps.setups import Setup
from unsc.bench.train import fit
from unsc.compare.grid import Grid
from unsc.logits import accuracy
from unsc.progress import Progress, quiet
from unsc.storage.files import write_json
from unsc.storage.versions import versions

COUNTS, SEEDS = (5, 30, 100), (0, 1, 2)
"""How many records are forgotten, and the seeds that draw them."""
_AWAY: dict[str, dict[str, Any]] = {"unsc": {"targets": "soft"}, "unsc_paper": {"least_gain": 0.0}}
"""Both steps move records away from their labels here, whatever that costs."""
_COLUMNS = ("test_acc", "records_acc", "retained_kl")


def run(setup: Setup, path: Path, *, progress: Progress = quiet) -> list[Row]:
    """Every number of records, drawn by every seed; written to `path` after each draw."""
    rows: list[Row] = []
    for count in COUNTS:
        for seed in SEEDS:
            rows += measure(setup, count, seed, progress=progress)
            write_json(path, {"case": "records", "versions": versions(), "rows": rows})
    return rows


def measure(setup: Setup, count: int, seed: int, *, progress: Progress = quiet) -> list[Row]:
    """One draw of `count` records: a row for the original, for a retrained network and for each step."""
    train, test = setup.data.train, as_batch(setup.data.test[:])
    images, labels = train.tensors
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    gone, stay = order[:count], order[count:]
    torch.manual_seed(seed)
    training = {"epochs": 20, "lr": 0.05, "batch_size": 64, "seed": seed}
    retrained = fit(digits_cnn(), images[stay], labels[stay], progress=progress, **training)
    models: dict[str, tuple[nn.Module, Row]] = {"original": (setup.model, {}), "retrained": (retrained, {})}
    for method, options in setup.methods.items():
        options = {**options, **_AWAY.get(method, {})}
        result = forget(setup.model, train, indices=gone.tolist(), seed=seed, progress=progress, **options)
        models[method] = result.model, {name: getattr(result.metrics, name) for name in ("retained_kl", "stopped")}
    records = as_batch((images[gone], labels[gone]))
    return [
        {"method": method, "records": count, "seed": seed}
        | {"test_acc": accuracy(model, test), "records_acc": accuracy(model, records)}
        | noted
        for method, (model, noted) in models.items()
    ]


def table(rows: list[Row]) -> Grid:
    """Mean and standard deviation over draws, by method and number of records."""
    lines = []
    for count, method in dict.fromkeys((row["records"], row["method"]) for row in rows):
        own = [row for row in rows if (row["records"], row["method"]) == (count, method)]
        columns = [[row[c] for row in own if c in row] for c in _COLUMNS]
        cells = [f"{mean(v):.3f} ± {stdev(v):.3f}" if v else "" for v in columns]
        stopped = ", ".join(sorted({row["stopped"] for row in own if "stopped" in row}))
        lines.append((f"{method}: {count}", *cells, stopped))
    title = f"records: mean ± standard deviation over {len(SEEDS)} draws"
    return Grid(title, ("method: records", *_COLUMNS, "stopped"), (tuple(lines),))
