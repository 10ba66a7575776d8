"""What a figure is: how its numbers are found, and how they are drawn. Numbers and pictures are kept apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from unsc.bench.figures.shared.subject import Subject
from unsc.bench.registry import Registry
from unsc.bench.results import Result
from unsc.progress import Progress

Content: TypeAlias = dict[str, Any]
"""A figure's numbers, by name; they can be written as JSON, and nothing else is needed to draw it."""
Draw: TypeAlias = Callable[[Content, Path], None]
"""Draws numbers into a file."""


@dataclass(frozen=True)
class NetworkFigure:
    """Measured once on the networks of a data set; the numbers are kept in `DATA/figures/NAME.json`."""

    name: str
    measure: Callable[[Subject], Content]
    draw: Draw


@dataclass(frozen=True)
class LoneFigure:
    """Measured once, by a seed, without any data set; the numbers are kept in `NAME/figures/NAME.json`."""

    name: str
    measure: Callable[[int, Progress], Content]
    draw: Draw


@dataclass(frozen=True)
class ResultFigure:
    """Drawn from the result files of a data set, and from nothing else."""

    name: str
    gather: Callable[[Sequence[Result]], dict[str, Content]]
    """Numbers by the name of the picture that shows them; empty if the results do not have them."""
    draw: Draw


Figure: TypeAlias = NetworkFigure | LoneFigure | ResultFigure

FIGURES: Registry[Figure] = Registry("figure", "unsc.bench.figures")
"""All figures. `FIGURES.add(NetworkFigure(...))` registers one."""
