"""What is to be forgotten: whole classes, or records of classes that stay.

One `Request` is shared by the run that carries it out, by the methods that are compared with it and by the
evaluation of what came of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from unsc.batches import Batch
from unsc.errors import InvalidData, InvalidRequest, listing

Kind: TypeAlias = Literal["classes", "records"]
"""What is asked for: whole classes, or single records."""

MIN_RETAINED = 4
"""Retained samples that every class which stays must have, unless told otherwise: some to fit, some to check."""


def of_classes(labels: Tensor, classes: Iterable[int]) -> Tensor:
    """Which samples with these `labels` (n,) belong to one of the `classes`: bool (n,)."""
    return torch.isin(labels, torch.tensor(sorted(classes), dtype=torch.long, device=labels.device))


def batches_without(batches: Iterable[Batch], classes: Iterable[int]) -> list[Batch]:
    """Batches without the samples of some classes; those that have no others are left out."""
    left = [batch[~of_classes(batch.labels, classes)] for batch in batches]
    return [batch for batch in left if len(batch)]


class Positions(NamedTuple):
    """Where the samples of a data set are that go and that stay, ascending int64."""

    forget: Tensor
    retain: Tensor


@dataclass(frozen=True, repr=False)
class Request:
    """Classes or records to forget from a classifier with `num_classes` classes."""

    num_classes: int
    classes: tuple[int, ...] = ()
    """The classes to forget, ascending; empty for records."""
    records: tuple[int, ...] | None = None
    """Positions of the records in the training set, ascending; None for classes, and for records that are handed
    over by themselves, without a data set to find them in."""
    gone: tuple[int, ...] = ()
    """Classes that earlier requests made the network forget. Their samples neither go nor stay."""
    new_labels: tuple[int, ...] = ()
    """The labels that mislabelled records should have, one for each of `records`; empty if nobody says."""

    @classmethod
    def for_classes(cls, classes: object, num_classes: int, *, gone: Iterable[int] = ()) -> Request:
        """A request for whole classes, checked against what the model knows."""
        chosen, former = tuple(sorted(_integers(classes, "classes"))), _gone(gone, num_classes)
        _check_classes(chosen, num_classes)
        if again := sorted({*chosen} & {*former}):
            raise InvalidRequest(f"class {listing(again)} is forgotten already; leave it out")
        if len({*chosen, *former}) >= num_classes:
            raise InvalidRequest(f"all {num_classes} classes would be forgotten; at least one must stay")
        return cls(num_classes, chosen, gone=former)

    @classmethod
    def for_records(
        cls, indices: object, num_classes: int, *, new_labels: object = None, gone: Iterable[int] = ()
    ) -> Request:
        """A request for the samples at `indices` of the training set; None if they are handed over by themselves.

        `new_labels`, one for each of them in the same order, are what mislabelled records should have been called.
        """
        former = _gone(gone, num_classes)
        if len(former) >= num_classes:
            raise InvalidRequest(f"all {num_classes} classes are gone; at least one must stay")
        if indices is None:
            return cls(num_classes, gone=former)
        given = _integers(indices, "indices")
        if new_labels is None:
            return cls(num_classes, records=tuple(sorted(given)), gone=former)
        labels = whole_numbers(new_labels, "new_labels")
        if len(labels) != len(given):
            raise InvalidRequest(
                f"{len(labels)} new_labels for {len(given)} indices; give one for each, in their order"
            )
        outside = [k for k in labels if not 0 <= k < num_classes]
        if outside:
            raise InvalidRequest(f"new_labels holds {listing(outside)}; the model's classes are 0 to {num_classes - 1}")
        if forgotten := sorted({*labels} & {*former}):
            raise InvalidRequest(f"new_labels holds {listing(forgotten)}, which is forgotten already; give others")
        pairs = sorted(zip(given, labels, strict=True))
        return cls(num_classes, (), tuple(i for i, _ in pairs), former, tuple(k for _, k in pairs))

    def with_copies(self, origins: Mapping[int, int]) -> Request:
        """With samples that are copies of records: their positions, with those of the records they are copies of.

        A copy of a record that has a new label gets the same.
        """
        if self.records is None:
            raise InvalidRequest("the records are known by themselves only; give their positions in the data set")
        positions = sorted({*self.records, *origins})
        labels = dict(zip(self.records, self.new_labels, strict=True)) if self.new_labels else {}
        new_labels = tuple(labels[origins.get(i, i)] for i in positions) if labels else ()
        return replace(self, records=tuple(positions), new_labels=new_labels)

    @property
    def kind(self) -> Kind:
        return "classes" if self.classes else "records"

    @property
    def kept(self) -> Tensor:
        """True for the classes that are not to be forgotten now, bool (num_classes,); for records all of them.

        Those that are gone are among them: a rise of their outputs is a change of retained predictions.
        """
        return ~of_classes(torch.arange(self.num_classes), self.classes)

    @property
    def stays(self) -> Tensor:
        """True for the classes that the network still knows when the request is carried out, bool (num_classes,)."""
        return ~of_classes(torch.arange(self.num_classes), (*self.classes, *self.gone))

    def removed(self, labels: Tensor) -> Tensor:
        """Which classes forgotten samples with these `labels` (n,) may no longer be given, bool (n, num_classes).

        The classes to forget, or, for a record, its own class; and those that are gone.
        """
        lost = (~self.stays).to(labels.device).expand(len(labels), self.num_classes)
        return lost | F.one_hot(labels, self.num_classes).bool() if self.kind == "records" else lost

    def __repr__(self) -> str:
        if self.classes:
            what = f"{'class' if len(self.classes) == 1 else 'classes'} {listing(self.classes)}"
        else:
            what = "records" if self.records is None else f"{len(self.records)} records"
        gone = f", {listing(self.gone)} gone before" if self.gone else ""
        return f"<Request: forget {what} of {self.num_classes} classes{gone}>"

    def check_positions(self, size: int) -> None:
        """Refuse records that a data set of this size does not have."""
        outside = [i for i in self.records or () if not 0 <= i < size]
        if outside:
            last = size - 1
            raise InvalidRequest(f"indices {listing(outside)} are out of range; the data set has samples 0 to {last}")

    def check_new_labels(self, labels: Tensor) -> None:
        """Refuse records that have their new label in a training set with these `labels` (n,) already."""
        pairs = zip(self.records or (), self.new_labels, strict=False)  # usually there are no new labels
        if same := [i for i, new in pairs if int(labels[i]) == new]:
            raise InvalidRequest(
                f"new_labels give the samples {listing(same)} the labels that the data gives them already; leave these "
                "records out, or give the labels that they should have"
            )

    def split(self, labels: Tensor, *, min_retained: int = MIN_RETAINED) -> Positions:
        """Where in a training set with these `labels` (n,) the samples are that go, and those that stay."""
        check_labels(labels, self.num_classes, remedy="use the data the model was trained on")
        forget = self._records_among(labels) if self.kind == "records" else self._classes_among(labels)
        stay = ~(forget | of_classes(labels, self.gone))
        check_enough(labels[stay], min_retained)
        return Positions(forget.nonzero().flatten(), stay.nonzero().flatten())

    def _classes_among(self, labels: Tensor) -> Tensor:
        present = labels.unique().tolist()
        missing = sorted(set(self.classes) - set(present))
        if missing:
            known = listing(present, limit=20)
            raise InvalidRequest(f"the data has no sample of class {listing(missing)}; its classes are {known}")
        if set(present) <= {*self.classes, *self.gone}:
            raise InvalidRequest(f"all {len(present)} classes would be forgotten; at least one must stay")
        return of_classes(labels, self.classes)

    def _records_among(self, labels: Tensor) -> Tensor:
        if self.records is None:
            raise InvalidRequest("the records are known by themselves only; give their positions in the data set")
        self.check_positions(len(labels))
        mask = torch.zeros(len(labels), dtype=torch.bool)
        mask[list(self.records)] = True
        if again := sorted({*labels[mask].tolist()} & {*self.gone}):
            raise InvalidRequest(f"records of class {listing(again)}, which is forgotten already; leave them out")
        emptied = sorted(set(labels.unique().tolist()) - set(labels[~mask].unique().tolist()))
        if emptied:
            raise InvalidRequest(
                f"these indices leave no sample of class {listing(emptied)}; forget it with classes={emptied}"
            )
        return mask


def make_request(
    num_classes: int,
    *,
    classes: object = None,
    indices: object = None,
    new_labels: object = None,
    gone: Iterable[int] = (),
) -> Request:
    """The request of a caller who names either `classes`, or the `indices` of records and perhaps their labels."""
    if (classes is None) == (indices is None):
        raise InvalidRequest("give either classes=[...] to forget whole classes, or indices=[...] to forget records")
    if classes is None:
        return Request.for_records(indices, num_classes, new_labels=new_labels, gone=gone)
    if new_labels is not None:
        raise InvalidRequest("new_labels are for records, which indices=[...] names; leave them out for classes")
    return Request.for_classes(classes, num_classes, gone=gone)


def check_labels(labels: Tensor, num_classes: int, what: str = "the data", *, remedy: str = "correct them") -> None:
    """Refuse `labels` (n,) that a model with so many classes has no outputs for; `what` holds them, in words."""
    wrong = labels[(labels < 0) | (labels >= num_classes)].unique().tolist()
    if wrong:
        raise InvalidData(
            f"{what} holds the labels {listing(wrong)}, but the model has {num_classes} outputs: labels 0 to "
            f"{num_classes - 1} are allowed; {remedy}"
        )


def check_enough(labels: Tensor, least: int = MIN_RETAINED) -> None:
    """Refuse a class that stays with so few samples that nothing can be estimated from them."""
    present, counts = labels.unique(return_counts=True)
    few = {k: n for k, n in zip(present.tolist(), counts.tolist(), strict=True) if n < least}
    if few:
        found = listing(f"class {k}: {n}" for k, n in few.items())
        fewest = min(few.values())
        risk = (
            f" With min_retained={fewest} it runs all the same, but predictions on so small a class are hardly watched "
            "and may suffer unnoticed"
        )
        raise InvalidData(
            f"too few retained samples ({found}); every class that stays needs at least {least}."
            f"{risk if fewest >= 2 else ' Add samples'}"
        )


def _gone(classes: Iterable[int], num_classes: int) -> tuple[int, ...]:
    """Classes that are gone, ascending; none is allowed."""
    given = list(classes)
    found = tuple(sorted(set(whole_numbers(given, "gone")))) if given else ()
    _check_classes(found, num_classes)
    return found


def _check_classes(classes: Iterable[int], num_classes: int) -> None:
    outside = [k for k in classes if not 0 <= k < num_classes]
    if outside:
        raise InvalidRequest(f"the model has no class {listing(outside)}; its classes are 0 to {num_classes - 1}")


def _integers(values: object, what: str) -> list[int]:
    """Whole numbers, each once."""
    plain = whole_numbers(values, what)
    repeated = sorted(v for v, n in Counter(plain).items() if n > 1)
    if repeated:
        raise InvalidRequest(f"{what} names {listing(repeated)} more than once; name each once")
    return plain


def whole_numbers(values: object, what: str) -> list[int]:
    """Those that a user gives as `what`: a list, an array, a tensor or a single one."""
    try:
        given: list[Any] = list(values)  # type: ignore[call-overload]
    except TypeError:  # a single number
        given = [values]
    if not given:
        raise InvalidRequest(f"{what}=[] names nothing to forget; give at least one")
    plain = list(map(_plain, given))
    wrong = [v for v in plain if isinstance(v, bool) or not isinstance(v, int)]
    if wrong:
        raise InvalidRequest(
            f"{what} holds {listing(map(repr, wrong))}; give whole numbers (of a mask, mask.nonzero().flatten())"
        )
    return plain


def _plain(value: Any) -> Any:
    """A number out of an array or a tensor that holds one; anything else as it is."""
    try:
        return value.item() if hasattr(value, "item") else value
    except (RuntimeError, ValueError):  # it holds several
        return value
