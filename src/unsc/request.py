"""What is asked to be forgotten, checked against the data: whole classes, or records of classes that stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unsc.errors import InvalidData, InvalidRequest, listing

_FEWEST = 4
"""Retained samples that every class which stays must have: some to fit, some to watch."""


@dataclass(frozen=True)
class Request:
    """Which samples go and which stay, as positions in the data set."""

    classes: tuple[int, ...] | None
    """The classes to forget, or None for records."""
    forget: Tensor
    retain: Tensor
    num_classes: int

    @classmethod
    def unplaced(cls, classes: Iterable[int] | None, *, num_classes: int) -> Request:
        """A request whose samples were handed over by themselves, without a data set to find them in."""
        nowhere = torch.empty(0, dtype=torch.long)
        chosen = None if classes is None else tuple(sorted(_integers(classes, "forget")))
        outside = [k for k in chosen or () if not 0 <= k < num_classes]
        if outside:
            raise InvalidRequest(f"the model has no class {listing(outside)}; its classes are 0 to {num_classes - 1}")
        if chosen is not None and len(chosen) == num_classes:
            raise InvalidRequest(f"all {num_classes} classes would be forgotten; at least one must stay")
        return cls(chosen, nowhere, nowhere, num_classes)

    @property
    def kind(self) -> str:
        return "records" if self.classes is None else "classes"

    @property
    def kept(self) -> Tensor:
        """True for the classes that stay, (classes,)."""
        kept = torch.ones(self.num_classes, dtype=torch.bool)
        if self.classes is not None:
            kept[list(self.classes)] = False
        return kept

    def promise(self, step: str) -> str:
        """What the result of this request can be said to do, in words for the person who asked."""
        if self.classes is not None:
            return (
                "Whole classes were forgotten: their samples are classified as the retained classes that the original "
                "network found most similar, and predictions on retained data stay within the measured KL. This does "
                "not promise weights as if the classes had never been seen."
            )
        kept = (
            "the other classes are protected by their null space; the rest of a record's own class is not"
            if step == "paper"
            else "predictions on the retained data, its own class included, stay within the measured KL"
        )
        return (
            f"Records of classes that stay were moved away from their own labels as far as possible; {kept}. A network "
            "trained without these records may still classify most of them correctly, so this can forget more than "
            "retraining would."
        )


def make_request(
    labels: Tensor, num_classes: int, *, classes: Iterable[int] | None, indices: Iterable[int] | None
) -> Request:
    """Check a request for `classes` or for the samples at `indices` of a data set with these `labels` (n,)."""
    wrong = (labels < 0) | (labels >= num_classes)
    if wrong.any():
        raise InvalidData(
            f"the data holds the labels {listing(labels[wrong].unique().tolist())}, but the model has {num_classes} "
            f"outputs: labels 0 to {num_classes - 1} are allowed. Use the data the model was trained on"
        )
    if (classes is None) == (indices is None):
        raise InvalidRequest("give either classes=[...] to forget whole classes, or indices=[...] to forget records")
    if classes is not None:
        chosen = _classes(classes, labels)
        mask = torch.isin(labels, torch.tensor(chosen))
    else:
        chosen = None
        mask = torch.zeros(len(labels), dtype=torch.bool)
        mask[_indices(indices, len(labels))] = True  # type: ignore[arg-type]
        emptied = sorted(set(labels.unique().tolist()) - set(labels[~mask].unique().tolist()))
        if emptied:
            raise InvalidRequest(
                f"these indices leave no sample of class {listing(emptied)}; forget it with classes={emptied}"
            )
    stay = labels[~mask]
    counts = {k: int((stay == k).sum()) for k in stay.unique().tolist()}
    few = {k: n for k, n in counts.items() if n < _FEWEST}
    if few:
        found = listing(f"class {k}: {n}" for k, n in few.items())
        raise InvalidData(f"too few retained samples ({found}); every class that stays needs at least {_FEWEST}")
    return Request(chosen, mask.nonzero().flatten(), (~mask).nonzero().flatten(), num_classes)


def _integers(values: object, what: str) -> list[int]:
    try:
        given = list(values)  # type: ignore[call-overload]
    except TypeError:  # a single number
        given = [values]
    if not given:
        raise InvalidRequest(f"{what}=[] names nothing to forget; give at least one")
    plain: list[Any] = [v if isinstance(v, int) else getattr(v, "item", lambda v=v: v)() for v in given]
    wrong = [v for v in plain if isinstance(v, bool) or not isinstance(v, int)]
    if wrong:
        raise InvalidRequest(
            f"{what} holds {listing(map(repr, wrong))}; give whole numbers (of a mask, mask.nonzero().flatten())"
        )
    repeated = sorted(v for v, n in Counter(plain).items() if n > 1)
    if repeated:
        raise InvalidRequest(f"{what} names {listing(repeated)} more than once; name each once")
    return plain


def _classes(classes: object, labels: Tensor) -> tuple[int, ...]:
    chosen = _integers(classes, "classes")
    present = labels.unique().tolist()
    missing = sorted(set(chosen) - set(present))
    if missing:
        known = listing(present, limit=20)
        raise InvalidRequest(f"the data has no sample of class {listing(missing)}; its classes are {known}")
    if set(chosen) == set(present):
        raise InvalidRequest(f"all {len(present)} classes would be forgotten; at least one must stay")
    return tuple(sorted(chosen))


def _indices(indices: object, size: int) -> list[int]:
    chosen = _integers(indices, "indices")
    outside = [i for i in chosen if not 0 <= i < size]
    if outside:
        raise InvalidRequest(f"indices {listing(outside)} are out of range; the data set has samples 0 to {size - 1}")
    return chosen
