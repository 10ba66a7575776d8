"""Digits of which a tenth carries a wrong label: those records are moved off it, or to the right one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from unsc.api import forget
from unsc.batches import as_batch
from unsc.bench.data.digits import digits
from unsc.bench.networks import digits_cnn
from unsc.bench.records.case import Case, Row
from unsc.bench.records.looking import drawn, unwarned
from unsc.bench.train import fit
from unsc.cost import metered
from unsc.logits import accuracy

SHARE = 0.1


def rows(models: Path, seed: int) -> Iterator[Row]:
    """Networks trained on wrong labels, on right ones and without those records; then what forgetting makes of one."""
    split = digits()
    images, right = split.train.tensors
    flipped = drawn(len(images), round(SHARE * len(images)), seed)
    wrong = right.clone()
    away = torch.randint(1, len(split.classes), (len(flipped),), generator=torch.Generator().manual_seed(seed))
    wrong[flipped] = (right[flipped] + away) % len(split.classes)
    stay = sorted({*range(len(images))} - {*flipped})
    test, records = as_batch(split.test[:]), as_batch((images[flipped], right[flipped]))

    def row(what: str, model: nn.Module) -> Row:
        return {"what": what, "test_acc": accuracy(model, test), "right": accuracy(model, records)}

    original = _trained(images, wrong, seed)
    yield row("wrong labels", original)
    yield row("right labels", _trained(images, right, seed))
    yield row("without those records", _trained(images[stay], right[stay], seed))
    ways: dict[str, dict[str, Any]] = {"away": {"targets": "away"}, "new_labels": {"new_labels": right[flipped]}}
    for what, own in ways.items():
        with unwarned(), metered() as metre:
            result = forget(original, TensorDataset(images, wrong), indices=flipped, seed=seed, **own)
        noted = {"kl": result.metrics.retained_kl, "seconds": metre().cpu_seconds, "stopped": result.metrics.stopped}
        yield {**row(what, result.model), **noted}


def _trained(images: Tensor, labels: Tensor, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = digits_cnn()
    return fit(model, images, labels, epochs=20, lr=0.05, batch_size=64, seed=seed)


CASE = Case(
    "mislabelled",
    "Digits, a tenth of the labels wrong",
    {
        "test_acc": "test accuracy",
        "right": "records given their right label",
        "kl": "retained KL",
        "seconds": "CPU seconds",
        "stopped": "stopped",
    },
    (0, 1, 2),
    rows,
)
