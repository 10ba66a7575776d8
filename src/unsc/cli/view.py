"""A view of a run while it goes on: a table that fills on a terminal, plain lines elsewhere. On standard error."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from unsc.errors import GuessedTargetsWarning, HeadOnlyWarning
from unsc.progress import Advance, Progress


@dataclass
class Stage:
    """A part of a run, how far it is, and what was measured in it last."""

    name: str
    total: int
    done: int = 0
    forget_acc: float | None = None
    """Percent."""
    retained_kl: float | None = None
    """Nats."""
    lines: Console | None = None
    """Where measurements are told as lines; None where a table shows them."""

    def __call__(self) -> None:
        self.done += 1

    def show(self, *, forget_acc: float, retained_kl: float) -> None:
        self.forget_acc, self.retained_kl = forget_acc, retained_kl
        if self.lines is not None:
            told = f"forget accuracy {forget_acc:.1f} %, retained KL {retained_kl:.4f} nats"
            self.lines.print(
                f"{self.name}: step {self.done} of at most {self.total}, {told}", highlight=False, soft_wrap=True
            )


@dataclass
class View:
    """The stages of a run so far."""

    console: Console
    stages: list[Stage] = field(default_factory=list)

    @contextmanager
    def progress(self, description: str, total: int) -> Generator[Advance, None, None]:
        lines = None if self.console.is_terminal else self.console
        if lines is not None:
            lines.print(f"{description} ...", highlight=False, markup=False)
        self.stages.append(Stage(description, total, lines=lines))
        yield self.stages[-1]

    def table(self) -> Table:
        table = Table("stage", "steps", "forget accuracy", "retained KL")
        for column in table.columns[1:]:
            column.justify = "right"
        for stage in self.stages:
            accuracy = "" if stage.forget_acc is None else f"{stage.forget_acc:.1f} %"
            kl = "" if stage.retained_kl is None else f"{stage.retained_kl:.4f} nats"
            table.add_row(Text(stage.name), f"{stage.done}/{stage.total}", accuracy, kl)
        return table


@contextmanager
def view() -> Generator[Progress, None, None]:
    """Shows a run that reports to this; what it warns of is told in a line."""
    console = Console(stderr=True)
    shown = View(console)
    with warnings.catch_warnings():
        for kind in (HeadOnlyWarning, GuessedTargetsWarning):
            warnings.simplefilter("always", kind)
        warnings.showwarning = lambda message, *_, **__: console.print(
            f"warning: {message}", style="yellow", markup=False, highlight=False, soft_wrap=True
        )
        if not console.is_terminal:
            yield shown.progress
            return
        with Live(console=console, get_renderable=shown.table, refresh_per_second=4, transient=True):
            yield shown.progress
