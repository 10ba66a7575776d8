"""A comparison while it goes on: a table that fills on a terminal, plain lines elsewhere. On standard error."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from unsc.compare.comparison import ORIGINAL, Comparison, read_result
from unsc.compare.plan import Config, Trial
from unsc.compare.results import Summary
from unsc.compare.run import Piece
from unsc.progress import Advance

_SHOWN = {"classes": ("retain_test_acc", "forget_test_acc"), "records": ("retain_test_acc", "records_acc")}
"""What is shown of each method, in percent, by the kind of request."""


@dataclass
class Watched:
    """What is known of a comparison so far."""

    comparison: Comparison
    console: Console
    stage: str = ""
    found: dict[str, dict[int, dict[str, float]]] = field(default_factory=dict)
    """By method and trial, what was measured."""
    failed: dict[str, int] = field(default_factory=dict)
    """By method, in how many trials."""

    @contextmanager
    def progress(self, description: str, total: int) -> Generator[Advance, None, None]:
        count = 0

        def advance() -> None:
            nonlocal count
            count += 1
            self.stage = f"{description}: {count} of {total}"

        self.stage = f"{description}: 0 of {total}"
        for trial in self.comparison.trials:  # those of a comparison that is resumed
            for method in (ORIGINAL, *self.comparison.config.methods):
                self._look(trial, method)
        if not self.console.is_terminal:
            self._say(f"{description}: {total} to do")
        yield advance

    def done(self, piece: Piece, message: str | None) -> None:
        """A piece of work is done; what was measured is read from its file."""
        told = "done" if message is None else "failed"
        trial, method = piece.what[0], str(piece.what[-1])
        if message is not None and piece.kind == "judge":
            self.failed[method] = self.failed.get(method, 0) + 1
        elif isinstance(trial, Trial):
            told = ", ".join(f"{name} {value:.1f} %" for name, value in self._look(trial, method).items()) or "diverged"
        if not self.console.is_terminal:
            self._say(f"{self.stage} ({piece}: {told})")

    def _look(self, trial: Trial, method: str) -> dict[str, float]:
        """What was measured of a method in a trial, if it was."""
        path = self.comparison.result_path(trial, method)
        if not path.exists():
            return {}
        values = read_result(path)["measured"]["values"]
        shown = {name: values[name]["value"] for name in self._metrics if name in values}
        self.found.setdefault(method, {})[trial.number] = shown
        return shown

    @property
    def _metrics(self) -> tuple[str, ...]:
        return _SHOWN[self.comparison.config.request]

    def table(self) -> Table:
        """A row for each method, with the mean of its trials so far."""
        config = self.comparison.config
        table = Table("method", "trials", *(f"{name} (%)" for name in self._metrics), caption=self.stage)
        for column in table.columns[1:]:
            column.justify = "right"
        for method in (ORIGINAL, *config.methods):
            trials = self.found.get(method, {}).values()
            lost = f", {self.failed[method]} failed" if method in self.failed else ""
            cells = [[one[name] for one in trials if name in one] for name in self._metrics]
            means = [str(Summary.of(values)) if values else "" for values in cells]
            table.add_row(Text(method), f"{len(trials)}/{config.trials}{lost}", *means)
        return table

    def _say(self, line: str) -> None:
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def watched(config: Config, folder: Path) -> Generator[Watched, None, None]:
    """Shows the comparison that is carried out in a folder meanwhile."""
    console = Console(stderr=True)
    view = Watched(Comparison(folder, config), console)
    if not console.is_terminal:
        yield view
        return
    with Live(console=console, get_renderable=view.table, refresh_per_second=4, transient=True):
        yield view
