"""Accuracy on what should be kept and on what should be forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from unsc.batches import Batch
from unsc.datasets import batches_of
from unsc.errors import InvalidData, InvalidRequest, listing
from unsc.evaluation.shared.shares import percent, share_by_class
from unsc.forms import Collate
from unsc.logits import OfOutput, check_not_sigmoid, logits_of
from unsc.models import said_of_few, working_copy
from unsc.names import numbered
from unsc.request import Request, check_labels, of_classes
from unsc.result import Forgotten


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
    model: nn.Module | Forgotten,
    test: Dataset | Iterable[Any] | None = None,
    *,
    classes: Iterable[int | str] | int | str | None = None,
    retain_test: Dataset | Iterable[Any] | None = None,
    forget_test: Dataset | Iterable[Any] | None = None,
    label_key: str | None = None,
    collate_fn: Collate | None = None,
    logits: OfOutput | None = None,
) -> Evaluation:
    """Accuracy of `model` on test data, on what should be kept and on what should be forgotten.

    A result in the model's place is judged in the labels before its request, also if outputs were dropped.
    Either `test` with the forgotten `classes`, numbers or names, or the two parts by themselves. Data is a data set, a
    loader or a list of samples. `collate_fn` makes a batch of samples, as in `DataLoader`; `logits` takes what the
    model returns and gives its logits, where it does not return them.
    """
    model = model.in_former_labels() if isinstance(model, Forgotten) else model
    working = working_copy(model, logits=logits)
    given = {"test": test, "classes": classes, "retain_test": retain_test, "forget_test": forget_test}
    if {name for name, value in given.items() if value is not None} not in _EITHER:
        raise InvalidRequest("give either test and classes=[...], or retain_test=... and forget_test=...")

    def judged(data: Any, name: str) -> _Judged:
        return _judge(working, batches_of(data, model, label_key=label_key, collate_fn=collate_fn), name)

    if test is None:
        return _evaluation(judged(retain_test, "retain_test"), judged(forget_test, "forget_test"))
    chosen = numbered(classes, model=model, data=[test], label_key=label_key)
    whole = judged(test, "test")
    goes = of_classes(whole.labels, Request.for_classes(chosen, whole.num_classes).classes)
    if goes.all() or not goes.any():
        there = listing(whole.labels.unique().tolist())
        raise InvalidData(f"test holds the classes {there}; it needs samples of {chosen}, and of others")
    return _evaluation(*(_Judged(whole.hits[m], whole.labels[m], whole.num_classes) for m in (~goes, goes)))


_EITHER = ({"test", "classes"}, {"retain_test", "forget_test"})
"""What may be given together."""


class _Judged(NamedTuple):
    hits: Tensor
    """Which samples are classified correctly, bool (n,)."""
    labels: Tensor
    """int64 (n,)."""
    num_classes: int


@torch.no_grad()
def _judge(model: nn.Module, batches: Iterable[Batch], name: str) -> _Judged:
    hits: list[Tensor] = []
    labels: list[Tensor] = []
    num_classes = 0
    for batch in (batch.for_model(model) for batch in batches):
        if not hits:
            said_of_few(model, batch, f"the samples of {name}")
            check_not_sigmoid(model, batch)  # of a network with one output, the sign of the logit decides
        logits = logits_of(model, batch)
        hits.append((logits.argmax(dim=1) == batch.labels).cpu())
        labels.append(batch.labels.cpu())
        num_classes = logits.shape[1]
    if sum(map(len, labels)) == 0:
        raise InvalidData(f"{name} is empty; give at least one sample")
    found = torch.cat(labels)
    check_labels(found, num_classes, name)
    return _Judged(torch.cat(hits), found, num_classes)


def _evaluation(retain: _Judged, forget: _Judged) -> Evaluation:
    by_class = share_by_class(torch.cat([retain.hits, forget.hits]), torch.cat([retain.labels, forget.labels]))
    return Evaluation(percent(retain.hits), percent(forget.hits), {int(k): value for k, value in by_class.items()})
