"""A table of text, for Markdown and for the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from unsc.extras import need

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Grid:
    """A table of text; the first column names the rows."""

    title: str
    head: tuple[str, ...]
    blocks: tuple[tuple[tuple[str, ...], ...], ...]
    """Rows, in blocks with a line between them."""
    bold: str = "unsc"
    """The row that a terminal shows in bold."""

    def markdown(self) -> str:
        rows = [self.head, *(row for block in self.blocks for row in block)]
        lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
        rule = "|".join(["---", *("--:" for _ in self.head[1:])])
        return "\n".join([f"**{self.title}**", "", f"| {lines[0]} |", f"|{rule}|", *(f"| {x} |" for x in lines[1:])])

    def show(self, console: Console) -> None:
        """Print it, in pieces of as many columns as fit."""
        rows = [self.head, *(row for block in self.blocks for row in block)]
        widths = [max(len(row[i]) for row in rows) + 3 for i in range(len(self.head))]
        pieces: list[list[int]] = [[]]
        for i in range(1, len(self.head)):
            if pieces[-1] and widths[0] + sum(widths[k] for k in (*pieces[-1], i)) > console.width:
                pieces.append([])
            pieces[-1].append(i)
        for piece in pieces:
            self._show_columns([0, *piece], console)

    def _show_columns(self, columns: list[int], console: Console) -> None:
        plain = need("rich.text", extra="cli").Text  # brackets in names are not markup
        table = need("rich.table", extra="cli").Table(title=self.title, pad_edge=False)
        for i in columns:
            table.add_column(self.head[i], justify="right" if i else "left", no_wrap=not i)
        for block in self.blocks:
            for row in block:
                table.add_row(*(plain(row[i]) for i in columns), style="bold" if row[0] == self.bold else None)
            table.add_section()
        console.print(table)
