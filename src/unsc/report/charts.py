"""Charts as ECharts reads them: bars, lines, points. Each series has a role or a colour number; the page colours it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_GRID = {"left": 8, "right": 16, "top": 28, "bottom": 8, "containLabel": True}


@dataclass(frozen=True)
class Series:
    """Values to draw."""

    name: str
    data: Sequence[Any]
    """Numbers, None where there is none, or pairs."""
    paint: str | int
    """A role (`original`, `retrained`, `control`, `method`, `result`, ...), or the number of a class."""
    dashed: bool = False


def bars(
    categories: Sequence[str], series: Sequence[Series], *, axis: str, most: float | None = None
) -> dict[str, Any]:
    """Upright bars, a group for each category."""
    return {
        "grid": _GRID,
        "xAxis": {"type": "category", "data": list(categories), "axisLabel": {"hideOverlap": True}},
        "yAxis": _values(axis, most),
        "series": [{"type": "bar", "barMaxWidth": 28, "barGap": "8%", **_plain(one)} for one in series],
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "shadow"}},
    }


def lying_bars(categories: Sequence[str], series: Sequence[Series], *, axis: str) -> dict[str, Any]:
    """Bars from the left, the first category at the top."""
    names = {
        "type": "category",
        "data": list(categories),
        "inverse": True,
        "axisLabel": {"width": 110, "overflow": "truncate"},
    }
    return {
        "grid": _GRID | {"top": 8, "bottom": 24},
        "xAxis": _below(axis),
        "yAxis": names,
        "series": [{"type": "bar", "barMaxWidth": 18, **_plain(one)} for one in series],
        "tooltip": {"trigger": "axis", "axisPointer": {"type": "shadow"}},
    }


def lines(series: Sequence[Series], *, below: str, axis: str, square: float | None = None) -> dict[str, Any]:
    """Lines through pairs (x, y); `square` is where both axes end."""
    fifth = {"min": 0, "max": square, "interval": square / 5} if square else {}
    return {
        "grid": _GRID | {"bottom": 24},
        "xAxis": _below(below) | fifth,
        "yAxis": _values(axis, None) | fifth,
        "series": [_line(one) | ({"showSymbol": False} if square else {}) for one in series],
        "tooltip": {"trigger": "axis"},
    }


def points(series: Sequence[Series], *, reach: Sequence[float]) -> dict[str, Any]:
    """Points (x, y) on a map without units, whose two axes go from and to the given ends (x0, x1, y0, y1)."""
    ends = ({"min": reach[0], "max": reach[1]}, {"min": reach[2], "max": reach[3]})
    bare = {"type": "value", "axisLabel": {"show": False}, "axisTick": {"show": False}, "bare": True}
    return {
        "grid": _GRID | {"top": 8, "left": 4, "right": 4, "bottom": 4},
        "xAxis": bare | ends[0],
        "yAxis": bare | ends[1],
        "series": [{"type": "scatter", "symbolSize": 6, **_plain(one)} for one in series],
        "tooltip": {"trigger": "item", "named": True},
    }


def _plain(series: Series) -> dict[str, Any]:
    return {"name": series.name, "data": list(series.data), "paint": series.paint}


def _line(series: Series) -> dict[str, Any]:
    style = {"width": 2, **({"type": "dashed"} if series.dashed else {})}
    few = len(series.data) <= 40
    return {"type": "line", "showSymbol": few, "symbolSize": 6, "lineStyle": style, **_plain(series)}


def _values(name: str, most: float | None) -> dict[str, Any]:
    end = {"max": most} if most is not None else {}
    return {"type": "value", "name": name, "nameLocation": "end", **end}


def _below(name: str) -> dict[str, Any]:
    return {
        "type": "value",
        "name": name,
        "nameLocation": "middle",
        "nameGap": 26,
        "splitNumber": 4,
        "axisLabel": {"hideOverlap": True},
    }
