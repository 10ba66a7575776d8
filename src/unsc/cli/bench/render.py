"""`unsc bench render`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unsc.cli.bench.options import OUT
from unsc.cli.output import written
from unsc.errors import InvalidRequest

_COMMITTED = Path("results")
"""Results that were kept, in a clone of this project."""


def command(
    out: Annotated[
        Path | None, typer.Option(help=f"Folder of results; by default {_COMMITTED}, or {OUT} where there is none.")
    ] = None,
) -> None:
    """Make the tables and figures from the result files alone."""
    from unsc.bench.claims import write_claims
    from unsc.bench.figure_claims import write_figure_claims
    from unsc.bench.figures.shared.make import draw_all
    from unsc.bench.leaderboard import write_leaderboard
    from unsc.bench.overview import write_overview
    from unsc.bench.records.run import write_page as write_records
    from unsc.bench.sequences.page import write_page as write_sequences
    from unsc.bench.speed.page import write_page as write_speed
    from unsc.bench.steps.page import write_page as write_steps
    from unsc.bench.tables import write_tables

    place = out or (_COMMITTED if _COMMITTED.is_dir() else OUT)
    if not place.is_dir():
        raise InvalidRequest(f"there is no folder {place}; measure something first, or name one with --out")
    for path in (
        *draw_all(place),
        write_tables(place),
        *write_leaderboard(place),
        *write_overview(place),
        *write_claims(place),
        *write_figure_claims(place),
        *write_steps(place),
        *write_records(place),
        *write_sequences(place),
        *write_speed(place),
    ):  # the page shows the pictures
        written(path)
