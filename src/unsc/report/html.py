"""Pieces of HTML, with everything that comes from files escaped."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from unsc.report.figure import Cell

_SHORT = 16
"""Rows of a table that stays on one page of paper."""


@dataclass(frozen=True)
class Badge:
    """A cell whose text is followed by a mark, such as `control`."""

    text: str
    mark: str
    """Empty for none."""


@dataclass(frozen=True)
class Shaded:
    """A cell with a shade."""

    text: str
    value: float | None
    """What it is sorted by."""
    share: float | None
    """How deep its shade is, 0 to 1."""


def text(value: Cell) -> str:
    """A cell in words: two digits after the point, three digits below 10, and a dash for what is not there."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not math.isfinite(value):
        return str(value)
    if isinstance(value, int) or (value == int(value) and abs(value) < 1e6):
        return f"{int(value):,}"
    return f"{value:.2f}" if 10 <= abs(value) < 1e6 else f"{value:.3g}"


def words(plain: str) -> str:
    """Text of this package, in which `commands` stand in backquotes."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(plain))


def paragraph(plain: str, kind: str) -> str:
    return f'<p class="{kind}">{words(plain)}</p>'


def bullets(items: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{words(item)}</li>" for item in items) + "</ul>"


def pairs(items: Sequence[tuple[str, str]]) -> str:
    """Names and what they are, one below the other."""
    return "<dl>" + "".join(f"<div><dt>{escape(a)}</dt><dd>{escape(b)}</dd></div>" for a, b in items) + "</dl>"


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[Cell | Badge | Shaded]]) -> str:
    """A table that a reader can sort by any column, in a frame that scrolls by itself."""
    heads = "".join(f'<th scope="col"><button type="button">{escape(name)}</button></th>' for name in head)
    body = "".join(f"<tr{_marked(row)}>{''.join(map(_cell, row, range(len(row))))}</tr>" for row in rows)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}">'
        f'<table class="sorts{" short" if len(rows) <= _SHORT else ""}"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _marked(row: Sequence[Cell | Badge | Shaded]) -> str:
    marks = [cell.mark for cell in row if isinstance(cell, Badge) and cell.mark]
    return f' class="is-{escape(marks[0])}"' if marks else ""


def _cell(value: Cell | Badge | Shaded, column: int) -> str:
    if isinstance(value, Badge):
        mark = f' <span class="badge {escape(value.mark)}">{escape(value.mark)}</span>' if value.mark else ""
        inside, key, number = escape(value.text) + mark, value.text, ""
    elif isinstance(value, Shaded):
        shade = "" if not value.share else f' style="--share:{round(100 * value.share)}%"'
        inside, key, number = (
            escape(value.text),
            "" if value.value is None else value.value,
            f' class="number shade"{shade}',
        )
    else:
        number = ' class="number"' if isinstance(value, int | float) or value is None else ""
        inside, key = escape(text(value)), "" if value is None else value
    if column == 0:
        return f'<th scope="row" data-key="{escape(str(key))}">{inside}</th>'
    return f'<td{number} data-key="{escape(str(key))}">{inside}</td>'
