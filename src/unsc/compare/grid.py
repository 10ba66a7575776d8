"""A table of text, as Markdown. The command line draws it in a terminal (`unsc.cli.tables.show_grid`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Grid:
    """A table of text; the first column names the rows."""

    title: str
    """Stands above it; empty for none."""
    head: tuple[str, ...]
    blocks: tuple[tuple[tuple[str, ...], ...], ...]
    """Rows, in blocks with a line between them."""
    bold: str = "unsc"
    """The row that a terminal shows in bold."""

    def markdown(self) -> str:
        rows = [self.head, *(row for block in self.blocks for row in block)]
        lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
        rule = "|".join(["---", *("--:" for _ in self.head[1:])])
        title = [f"**{self.title}**", ""] if self.title else []
        return "\n".join([*title, f"| {lines[0]} |", f"|{rule}|", *(f"| {x} |" for x in lines[1:])])
