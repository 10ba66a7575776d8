"""Samples that the network was not trained on: what it says of them is what it should say of forgotten records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from unsc.batches import Batch
from unsc.datasets import Source, read_batches
from unsc.duplicates import Sketched
from unsc.errors import InvalidData
from unsc.request import batches_without, check_labels
from unsc.targets.records import FEWEST

_LEAST, _MOST, _EACH = 512, 1024, 4
"""Samples that are drawn of a large set: four for each record, since then most of what chance does to a comparison is
done by the records, but so many at least and at most."""
_BATCH = 64


@dataclass(frozen=True)
class Validation:
    """Samples to compare records with, in batches, and how many were left out."""

    batches: tuple[Batch, ...] = ()
    overlapping: int = 0
    """Samples that were left out because the network was trained on the same inputs."""


def read_validation(
    source: Source, *, records: int, known: Sketched | None, num_classes: int, seed: int, gone: Iterable[int] = ()
) -> Validation:
    """512 to 1,024 samples of a data set, as so many records call for, without those whose inputs are `known`.

    Nor are those of classes that are `gone` among them: a network that forgot a class is wrong on all of its samples,
    which says nothing of what it does on samples that it was not trained on.
    """
    most = max(_LEAST, min(_MOST, _EACH * records))
    drawn = torch.randperm(len(source), generator=torch.Generator().manual_seed(seed))[:most].sort().values
    chosen = drawn if known is None else drawn[~known.has(Sketched.of(source, drawn.tolist()))]
    overlapping = len(drawn) - len(chosen)
    found = list(read_batches(source, chosen, size=_BATCH))
    if found:
        check_labels(torch.cat([batch.labels for batch in found]), num_classes, "the validation data")
    kept = tuple(batches_without(found, gone))
    count = sum(map(len, kept))
    if count < FEWEST:
        raise InvalidData(
            f"{count} validation samples{_left_out(overlapping, len(chosen) - count)}; give at least {FEWEST} that the "
            "network was not trained on"
        )
    return Validation(kept, overlapping)


def _left_out(overlapping: int, of_gone: int) -> str:
    """In words, how many samples were left out, and why."""
    reasons = [
        f"{count} that are {why}"
        for count, why in ((overlapping, "training data"), (of_gone, "of classes that are gone"))
        if count
    ]
    return f" after {' and '.join(reasons)} were left out" if reasons else ""
