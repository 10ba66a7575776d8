"""What a network was made to forget before: it travels with each result, and with what is saved of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from typing import Any

from torch import Tensor

from unsc.request import Request, check_labels
from unsc.verdict import Status


@dataclass(frozen=True)
class Past:
    """One request that was carried out."""

    classes: tuple[int, ...]
    """Empty for records."""
    records: int
    """How many; 0 for classes."""
    status: Status
    when: str
    """Date and time in UTC, ISO 8601."""
    options: dict[str, Any]
    """All of them, as plain values."""
    kept: tuple[int, ...] | None = None
    """The labels that the network still has outputs for, in the order of their new numbers; None if it has them all."""
    unseen_margins: tuple[float, ...] = ()
    """Of samples that the first network of a sequence was not trained on, by that network, ascending and evenly spread:
    what later requests for records hold theirs against, so that what each of them costs does not add up. Empty for
    classes."""

    @classmethod
    def now(
        cls,
        request: Request,
        forgotten: int,
        status: Status,
        options: Mapping[str, Any],
        kept: tuple[int, ...] | None = None,
    ) -> Past:
        """A request for so many `forgotten` samples that was carried out just now, by which outputs were `kept`."""
        when = datetime.now(timezone.utc).isoformat(timespec="seconds")
        records = forgotten if request.kind == "records" else 0
        return cls(request.classes, records, status, when, dict(options), kept)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, to be saved as JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Past:
        """What `to_dict` gave."""
        own: dict[str, Any] = {**values, "classes": tuple(values["classes"])}
        if own.get("kept") is not None:
            own["kept"] = tuple(own["kept"])
        own["unseen_margins"] = tuple(own.get("unseen_margins", ()))
        return cls(**own)


def first_margins(history: Iterable[Past]) -> tuple[float, ...]:
    """The `unseen_margins` of the first request that has some; empty if none has."""
    return next((past.unseen_margins for past in history if past.unseen_margins), ())


def gone_by(history: Iterable[Past]) -> tuple[int, ...]:
    """The classes that these requests made a network forget, ascending; one that it still knew may be asked again.

    By the numbers that they have at the end. Those whose outputs were dropped are none of its classes any more.
    """
    gone: set[int] = set()
    for past in history:
        if past.status != "not forgotten":
            gone |= set(past.classes)
        if past.kept is not None:
            gone = {new for new, old in enumerate(past.kept) if old in gone}
    return tuple(sorted(gone))


def asked_in(history: Iterable[Past]) -> tuple[int, ...]:
    """The classes that were asked for, whether or not they were forgotten, by the numbers that they have at the end."""
    return gone_by(replace(past, status="forgotten") for past in history)


def check_numbering(labels: Tensor, num_classes: int, history: Iterable[Past]) -> None:
    """Refuse `labels` (n,) of before a request that dropped outputs, if they are beyond those that are left."""
    if any(past.kept is not None for past in history):
        remedy = (
            "outputs were dropped before, and classes have new numbers: give the data those of the former result's "
            "label_map, and leave out classes that it lacks"
        )
        check_labels(labels, num_classes, remedy=remedy)
