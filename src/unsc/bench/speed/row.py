"""A row of the table: something that is measured, what it is held against, and what is to be reached."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal, TypeAlias

from unsc.bench.registry import Registry
from unsc.bench.speed.place import Place

Noted: TypeAlias = dict[str, Any]
"""Numbers and words behind a value, by name, as JSON takes them."""


@dataclass(frozen=True)
class Goal:
    """What a value is to reach."""

    bound: Literal["at most", "at least"]
    limit: float

    def reached(self, value: float) -> bool:
        return value <= self.limit if self.bound == "at most" else value >= self.limit

    def __str__(self) -> str:
        return f"{self.bound} {self.limit:g}"


@dataclass(frozen=True)
class Line:
    """One line of the table: the same quantity, measured a few times within one run."""

    what: str
    against: str
    """What it is divided by; empty for a quantity of its own."""
    values: tuple[float, ...]
    """One for each repetition. Their median counts."""
    unit: str = "times"
    goal: Goal | None = None
    noted: Noted = field(default_factory=dict)

    @property
    def value(self) -> float:
        return median(self.values)


@dataclass(frozen=True)
class Row(ABC):
    """A family of lines that are measured together. Its fields are its settings, and are kept with the result."""

    name: str
    """What it is called on the command line."""
    number: int
    """Where it stands in the table."""

    @abstractmethod
    def measure(self, place: Place) -> Iterator[Line]:
        """Its lines; `Missing` is raised where something is not there that they need."""


ROWS: Registry[Row] = Registry("row", "unsc.bench.speed.rows")
"""All rows. `ROWS.add(...)` registers one."""


def in_order() -> list[Row]:
    """All rows as the table has them."""
    return sorted(ROWS.all().values(), key=lambda row: (row.number, row.name))
