"""Forget single records of digits, by both steps, beside a network retrained without them."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import torch
from rich.table import Table
from torch import nn

import unsc
from benchmarks.cases import digits
from unsc.bench.networks import digits_cnn
from unsc.bench.train import fit
from unsc.progress import bar
from unsc.storage.files import write_json
from unsc.storage.versions import versions

_COLUMNS = ("test_acc", "records_acc", "retained_kl")
_SEEDS = range(3)


def run(out: Path) -> Table:
    """5, 30 and 100 records, drawn three times; writes `records.json` and gives the table."""
    case = digits(None, None, out / "models", bar)
    rows: list[dict[str, Any]] = []
    for count in (5, 30, 100):
        for seed in _SEEDS:
            rows += _draw(case.model, case.data, count, seed)
            write_json(out / "records.json", {"case": "records", "versions": versions(), "rows": rows})
    table = Table(title=f"records: mean ± standard deviation over {len(_SEEDS)} draws")
    for heading in ("method", "records", *_COLUMNS, "stopped"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for count, method in dict.fromkeys((row["records"], row["method"]) for row in rows):
        own = [row for row in rows if (row["records"], row["method"]) == (count, method)]
        columns = [[row[c] for row in own if c in row] for c in _COLUMNS]
        cells = [f"{statistics.mean(v):.3f} ± {statistics.stdev(v):.3f}" if v else "" for v in columns]
        table.add_row(method, str(count), *cells, ", ".join(sorted({row.get("stopped", "") for row in own})))
    return table


def _draw(model: nn.Module, data: Any, count: int, seed: int) -> list[dict[str, Any]]:
    images, labels = data.train.tensors
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    gone, stay = order[:count], order[count:]
    torch.manual_seed(seed)
    retrained = fit(
        digits_cnn(), images[stay], labels[stay], epochs=20, lr=0.05, batch_size=64, seed=seed, progress=bar
    )
    models: dict[str, tuple[nn.Module, dict[str, Any]]] = {"original": (model, {}), "retrained": (retrained, {})}
    for method, options in {"unsc": {}, "unsc_paper": {"step": "paper"}}.items():
        result = unsc.forget(model, data.train, indices=gone.tolist(), seed=seed, progress=bar, **options)
        models[method] = result.model, {k: result.metrics[k] for k in ("retained_kl", "stopped")}
    test_images, test_labels = data.test.tensors
    return [
        {"method": method, "records": count, "seed": seed}
        | {"test_acc": _accuracy(m, test_images, test_labels), "records_acc": _accuracy(m, images[gone], labels[gone])}
        | extra
        for method, (m, extra) in models.items()
    ]


@torch.no_grad()
def _accuracy(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    return 100 * (model(images).argmax(dim=1) == labels).double().mean().item()
