"""The loaders that `unlearn` is given: what is in them, and whether it agrees with the request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

from unsc.batches import Batch
from unsc.datasets import batches_of
from unsc.errors import InvalidRequest, listing
from unsc.request import Request, of_classes


def batches_in(loader: Iterable[Any], name: str, model: nn.Module, label_key: str | None) -> list[Batch]:
    found = list(batches_of(loader, model, label_key=label_key))
    if not found:
        raise InvalidRequest(f"the loader {name} gave no sample; it needs at least one")
    return found


def request_for(classes: object, num_classes: int, gone: Iterable[int]) -> Request:
    """The request of a caller who names classes, or, with None, hands records over by themselves."""
    if classes is None:
        return Request.for_records(None, num_classes, gone=gone)
    return Request.for_classes(classes, num_classes, gone=gone)


def staying(batches: list[Batch], gone: Iterable[int]) -> list[Batch]:
    """Without samples of classes that are gone: they neither go nor stay."""
    left = [batch[~of_classes(batch.labels, gone)] for batch in batches]
    if not any(map(len, left)):
        raise InvalidRequest("the loader retained holds samples of classes that are gone alone; it needs others")
    return [batch for batch in left if len(batch)]


def check_parts(classes: tuple[int, ...], forgotten: Batch, retained: list[Batch]) -> None:
    """Loaders and request must agree on which classes go and which stay."""
    go, stay = ({k for batch in part for k in batch.labels.tolist()} for part in ([forgotten], retained))
    if go != set(classes):
        raise InvalidRequest(
            f"forget={list(classes)}, but the loader forgotten holds the classes {listing(sorted(go))}; "
            "it must hold samples of each class to forget, and of no other"
        )
    if stay & set(classes):
        both = listing(sorted(stay & set(classes)))
        raise InvalidRequest(
            f"the loader retained holds samples of class {both}, which is to be forgotten; leave them out"
        )
