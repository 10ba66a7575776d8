"""What a network was made to forget before: it travels with each result, and with what is saved of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

from unsc.request import Request
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

    @classmethod
    def now(cls, request: Request, forgotten: int, status: Status, options: Mapping[str, Any]) -> Past:
        """A request for so many `forgotten` samples that was carried out just now."""
        when = datetime.now(timezone.utc).isoformat(timespec="seconds")
        records = forgotten if request.kind == "records" else 0
        return cls(request.classes, records, status, when, dict(options))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, to be saved as JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Past:
        """What `to_dict` gave."""
        own: dict[str, Any] = {**values, "classes": tuple(values["classes"])}
        return cls(**own)


def gone_by(history: Iterable[Past]) -> tuple[int, ...]:
    """The classes that these requests made a network forget, ascending; one that it still knew may be asked again."""
    return tuple(sorted({k for past in history if past.status != "not forgotten" for k in past.classes}))
