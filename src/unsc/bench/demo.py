"""The demo: train a small CNN on handwritten digits, forget a class in several ways, and compare.

It needs no files, and also serves as an example of the whole path from data to figure.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

from unsc.api import forget
from unsc.batches import as_batch
from unsc.bench.datasets import Split, load
from unsc.bench.drawing import class_accuracy
from unsc.bench.networks import digits_cnn
from unsc.bench.train import fit
from unsc.compare.grid import Grid
from unsc.errors import InvalidRequest, NotForgottenWarning
from unsc.evaluation import Evaluation, evaluate
from unsc.methods.logit_mask import LogitMask
from unsc.models import editable_layers, working_copy
from unsc.progress import Progress, quiet
from unsc.request import Request, of_classes
from unsc.storage.files import replaced_folder, save_tensors, write_json
from unsc.storage.versions import versions
from unsc.watch import drift

_TITLES = {
    "original": "original",
    "retrained": "retrained without it",
    "logit_mask": "logit mask (control)",
    "unsc_paper": "UNSC, paper's step",
    "unsc": "UNSC, ours",
}
_TRAINING = {"epochs": 20, "lr": 0.05, "batch_size": 64}


@dataclass(frozen=True)
class Row:
    """One model of the comparison."""

    model: nn.Module
    seconds: float
    scores: Evaluation
    drift: float
    """Largest relative change of a layer's outputs on retained test rows, against the original."""

    def to_dict(self) -> dict[str, object]:
        return {
            "retain_test_acc": self.scores.retain_test_acc,
            "forget_test_acc": self.scores.forget_test_acc,
            "drift": self.drift,
            "seconds": self.seconds,
            "class_acc": self.scores.class_acc,
        }


def demo(classes: Iterable[int], *, out: Path, seed: int = 0, progress: Progress = quiet) -> dict[str, Row]:
    """Compare five models on digits and write the run to `out`; a former demo there is replaced."""
    chosen = list(classes)
    _check_replaceable(out)
    data = load("digits")
    images, labels = data.train.tensors
    Request.for_classes(chosen, 10).split(labels)  # fail before training, not after
    stay = ~of_classes(labels, chosen)

    def trained(x: torch.Tensor, y: torch.Tensor) -> nn.Module:
        torch.manual_seed(seed)
        return fit(digits_cnn(), x, y, seed=seed, progress=progress, **_TRAINING)  # type: ignore[arg-type]

    rows: dict[str, Row] = {}

    def add(name: str, make: Callable[[], nn.Module]) -> nn.Module:
        began = time.perf_counter()
        model = make()
        seconds = time.perf_counter() - began
        original = rows["original"].model if rows else model
        rows[name] = _row(original, model, seconds, data, chosen)
        return model

    original = add("original", lambda: trained(images, labels))
    add("retrained", lambda: trained(images[stay], labels[stay]))
    add("logit_mask", lambda: LogitMask(original, chosen))
    shared = {"classes": chosen, "seed": seed, "progress": progress}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotForgottenWarning)  # the table says how far each came
        add("unsc_paper", lambda: forget(original, data.train, step="paper", **shared).model)
        add("unsc", lambda: forget(original, data.train, **shared).model)
    _write(out, rows, {"kind": "demo", "classes": chosen, "seed": seed, "training": _TRAINING, "versions": versions()})
    return rows


def _row(original: nn.Module, model: nn.Module, seconds: float, data: Split, classes: list[int]) -> Row:
    images, labels = data.test.tensors
    gone = of_classes(labels, classes)
    retained = TensorDataset(images[~gone], labels[~gone])
    scores = evaluate(model, retain_test=retained, forget_test=TensorDataset(images[gone], labels[gone]))
    bare = model.model if isinstance(model, LogitMask) else model
    batch = as_batch(retained[:])
    layers, _ = editable_layers(working_copy(original), batch)
    moved = drift(working_copy(original), working_copy(bare), layers, [batch])
    return Row(model, seconds, scores, max(moved.values()))


def _check_replaceable(out: Path) -> None:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    try:
        former = json.loads((out / "config.json").read_text()).get("kind") == "demo"
    except (OSError, ValueError, AttributeError):
        former = False
    if not former:
        raise InvalidRequest(f"{out} exists and was not written by the demo; name another folder with --out")


def _write(out: Path, rows: dict[str, Row], config: dict[str, object]) -> None:
    with replaced_folder(out) as part:
        write_json(part / "config.json", config)
        write_json(part / "metrics.json", {name: row.to_dict() for name, row in rows.items()})
        for which in ("original", "unsc"):
            save_tensors(part / f"{which}.safetensors", rows[which].model.state_dict(), config)
        accuracy = {_TITLES[name]: row.scores.class_acc for name, row in rows.items()}
        class_accuracy(part / "class_accuracy.png", accuracy, forgotten=config["classes"])  # type: ignore[arg-type]


def table(rows: dict[str, Row], classes: Iterable[int]) -> Grid:
    """The comparison as a table."""
    names = ", ".join(map(str, classes))
    head = ("model", "retain acc", "forget acc", "drift", "seconds")
    cells = tuple(
        (
            _TITLES[name],
            f"{row.scores.retain_test_acc:.2f}",
            f"{row.scores.forget_test_acc:.2f}",
            f"{row.drift:.3f}",
            f"{row.seconds:.2f}",
        )
        for name, row in rows.items()
    )
    return Grid(f"Handwritten digits, class {names} forgotten", head, (cells,), bold=_TITLES["unsc"])
