"""Forget each class in turn and print the table.

    python -m benchmarks digits records mlp
    python -m benchmarks alexnet resnet20 --data DATA --checkpoint resnet20-12fca82f.th

Each row is written to `runs/benchmarks/CASE.json` as soon as it is measured; a run that was stopped goes on from
there. `--fresh` measures anew.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch.utils.data import TensorDataset

import unsc
from benchmarks import records
from benchmarks.cases import CASES, Case
from unsc.methods.logit_mask import LogitMask
from unsc.progress import bar
from unsc.storage.files import write_json
from unsc.storage.versions import versions

_COLUMNS = ("retain_test_acc", "forget_test_acc", "retained_kl", "drift_max", "passes", "seconds")


def measure(case: Case, forget: int, method: str) -> dict[str, Any]:
    """One row: a class forgotten by a method, and test accuracy afterwards."""
    images, labels = case.data.test.tensors
    gone = labels == forget
    result = unsc.forget(case.model, case.data.train, classes=[forget], progress=bar, **case.methods[method])
    scores = unsc.evaluate(
        result.model,
        retain_test=TensorDataset(images[~gone], labels[~gone]),
        forget_test=TensorDataset(images[gone], labels[gone]),
    )
    kept = {k: v for k, v in result.metrics.items() if k not in ("history", "drift", "promise")}
    accuracy = {"retain_test_acc": scores.retain_test_acc, "forget_test_acc": scores.forget_test_acc}
    return {"forget": forget, "method": method} | kept | accuracy


@torch.no_grad()
def references(case: Case) -> list[dict[str, Any]]:
    """Rows of the original and of the logit mask, a control that forgets nothing, from one look at the test data."""
    images, labels = case.data.test.tensors
    logits = torch.cat([case.model(part) for part in images.split(256)])
    rows = []
    for method in ("original", "logit_mask"):
        for forget in case.classes:
            shown = logits if method == "original" else LogitMask(torch.nn.Identity(), [forget])(logits)
            right = (shown.argmax(dim=1) == labels).double() * 100
            gone = labels == forget
            accuracy = {"retain_test_acc": right[~gone].mean().item(), "forget_test_acc": right[gone].mean().item()}
            rows.append({"forget": forget, "method": method} | accuracy)
    return rows


def run(case: Case, path: Path) -> list[dict[str, Any]]:
    """Every row of a case, those in `path` taken from there."""
    rows = json.loads(path.read_text())["rows"] if path.exists() else references(case)
    known = {(row["forget"], row["method"]) for row in rows}
    for method in case.methods:
        for forget in case.classes:
            if (forget, method) not in known:
                rows.append(measure(case, forget, method))
                write_json(path, {"case": case.name, "options": case.methods, "versions": versions(), "rows": rows})
    return rows


def table(case: Case, rows: list[dict[str, Any]]) -> Table:
    """Each class's row, then mean and standard deviation over classes."""
    shown = Table(title=f"{case.name}: each class forgotten in turn (n = {len(case.classes)})")
    for heading in ("method", "class", *_COLUMNS):
        shown.add_column(heading, justify="left" if heading == "method" else "right")
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        for row in own:
            shown.add_row(method, str(row["forget"]), *(_number(row.get(c)) for c in _COLUMNS))
        if len(own) > 1:
            columns = [[row[c] for row in own if c in row] for c in _COLUMNS]
            cells = [f"{statistics.mean(v):.3f} ± {statistics.stdev(v):.3f}" if v else "" for v in columns]
            shown.add_row(method, "mean", *cells, style="bold", end_section=True)
    return shown


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}" if value < 1 else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    known = (*CASES, "records")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"{', '.join(known)}; default: all that need no file")
    parser.add_argument("--data", type=Path, help="folder with FashionMNIST/ and cifar-10-batches-py/")
    parser.add_argument("--checkpoint", type=Path, help="the public resnet20-12fca82f.th")
    parser.add_argument("--out", type=Path, default=Path("runs/benchmarks"))
    parser.add_argument("--fresh", action="store_true", help="measure rows anew that were measured before")
    given = parser.parse_args()
    unknown = [name for name in given.cases if name not in known]
    if unknown:
        parser.error(f"there is no case {', '.join(unknown)}; there are {', '.join(known)}")
    for name in given.cases or ["digits", "records", "mlp"]:
        if name == "records":
            Console(width=130).print(records.run(given.out))
            continue
        path = given.out / f"{name}.json"
        if given.fresh:
            path.unlink(missing_ok=True)
        case = CASES[name](given.data, given.checkpoint, given.out / "models", bar)
        Console(width=130).print(table(case, run(case, path)))


if __name__ == "__main__":
    try:
        main()
    except unsc.UnscError as e:
        sys.exit(f"error: {e}")
