"""`unsc bench render`."""

from __future__ import annotations

from unsc.cli.bench.options import OUT, Out
from unsc.cli.output import written
from unsc.errors import InvalidRequest


def command(out: Out = OUT) -> None:
    """Make the tables and figures from the result files alone."""
    from unsc.bench.figures.shared.make import draw_all
    from unsc.bench.steps.page import write_page
    from unsc.bench.tables import write_tables

    if not out.is_dir():
        raise InvalidRequest(f"there is no folder {out}; measure something first, or name one with --out")
    for path in (*draw_all(out), write_tables(out), *write_page(out)):  # the page shows the pictures
        written(path)
