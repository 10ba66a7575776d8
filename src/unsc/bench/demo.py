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
from typing import Any

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
from unsc.drift import drift
from unsc.errors import InvalidRequest, NotForgottenWarning
from unsc.evaluation import Evaluation, evaluate
from unsc.evaluation.side_by_side import FILE, Network, Part, Role, side_by_side
from unsc.features import Head, find_head
from unsc.methods.logit_mask import LogitMask
from unsc.models import editable_layers, working_copy
from unsc.progress import Progress, quiet
from unsc.request import Request, of_classes
from unsc.result import Forgotten
from unsc.storage.files import replaced_folder, save_tensors, write_json
from unsc.storage.versions import versions

_TITLES = {
    "original": "original",
    "retrained": "retrained without it",
    "logit_mask": "logit mask (control)",
    "unsc_paper": "UNSC, paper's step",
    "unsc": "UNSC, ours",
}
_SHOWN = {
    "original": "Original",
    "retrained": "Retrained",
    "logit_mask": "Logit mask",
    "unsc_paper": "UNSC, paper's step",
    "unsc": "UNSC, ours",
}
"""What they are called where their role is marked beside them."""
_ROLES: dict[str, Role] = {
    "original": "original",
    "retrained": "retrained",
    "logit_mask": "control",
    "unsc_paper": "method",
    "unsc": "result",
}
_TRAINING = {"epochs": 20, "lr": 0.05, "batch_size": 64}


@dataclass(frozen=True)
class Row:
    """One model of the comparison."""

    model: nn.Module
    seconds: float
    scores: Evaluation
    drift: float
    """Largest relative change of a layer's outputs on retained test rows, against the original; those of the classes to
    forget are left out."""

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

    found: dict[str, Forgotten] = {}

    def unlearned(name: str, **options: Any) -> nn.Module:
        found[name] = forget(original, data.train, classes=chosen, seed=seed, progress=progress, **options)
        return found[name].model

    original = add("original", lambda: trained(images, labels))
    add("retrained", lambda: trained(images[stay], labels[stay]))
    add("logit_mask", lambda: LogitMask(original, chosen))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotForgottenWarning)  # the table says how far each came
        add("unsc_paper", lambda: unlearned("unsc_paper", step="paper"))
        add("unsc", lambda: unlearned("unsc"))
    seen = _side_by_side(rows, data, found["unsc"])
    _write(
        out,
        rows,
        seen,
        {"kind": "demo", "classes": chosen, "seed": seed, "training": _TRAINING, "versions": versions()},
    )
    return rows


def _row(original: nn.Module, model: nn.Module, seconds: float, data: Split, classes: list[int]) -> Row:
    images, labels = data.test.tensors
    gone = of_classes(labels, classes)
    retained = TensorDataset(images[~gone], labels[~gone])
    scores = evaluate(model, retain_test=retained, forget_test=TensorDataset(images[gone], labels[gone]))
    bare = model.model if isinstance(model, LogitMask) else model
    batch = as_batch(retained[:])
    before, after = working_copy(original), working_copy(bare)
    _put_back(after, find_head(before, batch), classes)
    moved = drift(before, after, editable_layers(before, batch)[0], [batch])
    return Row(model, seconds, scores, max(moved.values()))


@torch.no_grad()
def _put_back(model: nn.Module, head: Head, classes: list[int]) -> None:
    """Give `model` the outputs that a head has for these classes: where forgetting puts those is no drift."""
    own = model.get_submodule(head.path)
    for name, former in head.layer.named_parameters():
        own.get_parameter(name)[classes] = former[classes]


def _side_by_side(rows: dict[str, Row], data: Split, result: Forgotten) -> dict[str, Any]:
    """What a report shows of the demo."""
    networks = [
        Network(name, _SHOWN[name], _ROLES[name], row.model, row.seconds, row.drift) for name, row in rows.items()
    ]
    labels = data.train.tensors[1]
    gone = of_classes(labels, result.request.classes).nonzero().flatten()
    return side_by_side(
        networks,
        result.request,
        test=Part.some(data.test, data.test.tensors[1]),
        data="test data",
        forgotten=Part.some(data.train, labels, gone),
        run=result.metrics,
    )


def _check_replaceable(out: Path) -> None:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    try:
        former = json.loads((out / "config.json").read_text()).get("kind") == "demo"
    except (OSError, ValueError, AttributeError):
        former = False
    if not former:
        raise InvalidRequest(f"{out} exists and was not written by the demo; name another folder with --out")


def _write(out: Path, rows: dict[str, Row], seen: dict[str, Any], config: dict[str, object]) -> None:
    with replaced_folder(out) as part:
        write_json(part / "config.json", config)
        write_json(part / "metrics.json", {name: row.to_dict() for name, row in rows.items()})
        write_json(part / FILE, seen)
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
