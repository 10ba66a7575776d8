"""Accuracy on what should be kept and on what should be forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from unsc.batches import as_batch
from unsc.errors import InvalidData
from unsc.evaluation.shared.shares import percent, share_by_class
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
    hits, labels = {}, {}
    for name, part in (("retain_test", retain_test), ("forget_test", forget_test)):
        hits[name], labels[name] = _judged(working, part, name, label_key)
    by_class = share_by_class(torch.cat(list(hits.values())), torch.cat(list(labels.values())))
    class_acc = {int(k): value for k, value in by_class.items()}
    return Evaluation(percent(hits["retain_test"]), percent(hits["forget_test"]), class_acc)


@torch.no_grad()
def _judged(model: nn.Module, part: Dataset | Iterable[Any], name: str, label_key: str | None) -> tuple[Tensor, Tensor]:
    """Which samples of a part are classified correctly, bool (n,), and their labels, int64 (n,)."""
    hits: list[Tensor] = []
    labels: list[Tensor] = []
    for collated in DataLoader(part, batch_size=256) if isinstance(part, Dataset) else part:
        batch = as_batch(collated, label_key=label_key).for_model(model)
        hits.append((logits_of(model, batch).argmax(dim=1) == batch.labels).cpu())
        labels.append(batch.labels.cpu())
    if sum(map(len, labels)) == 0:
        raise InvalidData(f"{name} is empty; give at least one sample")
    return torch.cat(hits), torch.cat(labels)
