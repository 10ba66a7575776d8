"""A figure of the report: charts to draw, and the numbers behind them as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Cell: TypeAlias = str | float | int | None


@dataclass(frozen=True)
class Chart:
    """One drawing."""

    title: str
    """Empty where the figure's own title says it."""
    option: Mapping[str, Any]
    """For ECharts; colours, fonts and what happens on hover are the page's (`assets/report.js`)."""
    unit: str = ""
    """Of the values that hovering shows."""
    height: int = 320
    """In pixels of the screen."""


@dataclass(frozen=True)
class View:
    """Charts that are shown together, and their numbers."""

    charts: tuple[Chart, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Figure:
    """What the page shows under one heading. Of several views a reader chooses one."""

    title: str
    caption: str
    """What is seen, and how it was measured."""
    views: Mapping[str, View]
    """By what a reader chooses them by; the name does not matter for a single one."""
    toggles: tuple[str, ...] = ()
    """Names of series that a reader can hide."""

    @classmethod
    def of(
        cls,
        title: str,
        caption: str,
        charts: Sequence[Chart],
        columns: Sequence[str],
        rows: Sequence[Sequence[Cell]],
        toggles: Sequence[str] = (),
    ) -> Figure:
        """A figure of a single view."""
        view = View(tuple(charts), tuple(columns), tuple(map(tuple, rows)))
        return cls(title, caption, {"": view}, tuple(toggles))
