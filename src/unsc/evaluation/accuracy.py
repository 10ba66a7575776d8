"""Accuracy on what should be kept and on what should be forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from unsc.batches import as_batch
from unsc.errors import InvalidData
from unsc.logits import logits_of
from unsc.models import working_copy


@dataclass(frozen=True)
class Evaluation:
    """Test accuracy in percent."""

    retain_test_acc: float
    """The paper's Acc_rt."""
    forget_test_acc: float
    """The paper's Acc_ut."""
    class_acc: dict[int, float]
    """By class, over both parts."""


def evaluate(
    model: nn.Module,
    *,
    retain_test: Dataset | Iterable[Any],
    forget_test: Dataset | Iterable[Any],
    label_key: str | None = None,
) -> Evaluation:
    """Accuracy of `model` on two parts of the test data, each a data set or a loader."""
    working = working_copy(model)
    right: dict[int, int] = {}
    seen: dict[int, int] = {}
    parts: dict[str, float] = {}
    for name, part in (("retain_test", retain_test), ("forget_test", forget_test)):
        hits, n = 0, 0
        for collated in DataLoader(part, batch_size=256) if isinstance(part, Dataset) else part:
            batch = as_batch(collated, label_key=label_key).for_model(working)
            with torch.no_grad():
                correct = logits_of(working, batch).argmax(dim=1) == batch.labels
            hits, n = hits + int(correct.sum()), n + len(batch)
            for k in batch.labels.unique().tolist():
                of_class = batch.labels == k
                right[k] = right.get(k, 0) + int(correct[of_class].sum())
                seen[k] = seen.get(k, 0) + int(of_class.sum())
        if n == 0:
            raise InvalidData(f"{name} is empty; give at least one sample")
        parts[f"{name}_acc"] = 100 * hits / n
    return Evaluation(**parts, class_acc={k: 100 * right[k] / seen[k] for k in sorted(seen)})
