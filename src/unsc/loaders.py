"""The loaders that `unlearn` is given: what is in them, and whether it agrees with the request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from unsc import peers
from unsc.batches import Batch
from unsc.datasets import batches_of
from unsc.duplicates import fingerprints
from unsc.errors import InvalidRequest, listing
from unsc.models import said_of_few
from unsc.request import Request, batches_without, check_labels


def batches_in(loader: Iterable[Any], name: str, model: nn.Module, label_key: str | None) -> list[Batch]:
    """All that a loader gives. Under several ranks each has a loader of its own part, and all get all parts."""
    found = list(batches_of(loader, model, label_key=label_key))
    if not found:
        raise InvalidRequest(f"the loader {name} gave no sample{of_rank()}; it needs at least one")
    check_parts_differ(name, found[0], sum(map(len, found)))
    return [batch for part in peers.gathered(found) for batch in part]


def of_rank() -> str:
    """For a message: which rank this is, if there are several."""
    return f" on rank {peers.rank()}" if peers.count() > 1 else ""


def check_parts_differ(name: str, first: Batch, size: int) -> None:
    """Refuse loaders that give every rank the same samples, `size` of them: they would count several times."""
    parts = peers.gathered((size, fingerprints(first)))
    if len(parts) > 1 and all(part == parts[0] for part in parts):
        raise InvalidRequest(
            f"the loader {name} gives each of {len(parts)} ranks the same {size} samples; give each rank a part of its "
            "own, as torch.utils.data.DistributedSampler does. (forget takes the whole data set on every rank.)"
        )


def request_for(classes: object, num_classes: int, gone: Iterable[int]) -> Request:
    """The request of a caller who names classes, or, with None, hands records over by themselves."""
    if classes is None:
        return Request.for_records(None, num_classes, gone=gone)
    return Request.for_classes(classes, num_classes, gone=gone)


def staying(batches: list[Batch], gone: Iterable[int], name: str = "retained") -> list[Batch]:
    """Those of the loader `name` without samples of classes that are gone: they neither go nor stay."""
    left = batches_without(batches, gone)
    if not left:
        raise InvalidRequest(f"the loader {name} holds samples of classes that are gone alone; it needs others")
    return left


def check_samples(model: nn.Module, loaders: Mapping[str, Sequence[Batch]], num_classes: int) -> None:
    """Refuse loaders, by name, whose samples `model` cannot take, or whose labels it has no outputs for."""
    for name, batches in loaders.items():
        said_of_few(model, batches[0], f"the samples of the loader {name}")
        check_labels(torch.cat([batch.labels for batch in batches]), num_classes, f"the loader {name}")


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
