"""`unsc bench mia`."""

from __future__ import annotations

from unsc.cli.bench.options import OUT, Out, Scenario
from unsc.cli.output import written


def command(data: Scenario = "fashion-mnist", out: Out = OUT) -> None:
    """The membership attack as bars, from the results of table1."""
    from unsc.bench.figures.make import draw_mia
    from unsc.bench.record import records

    found = [record for record in records(out) if record.data == data]
    written(draw_mia(found, out / data))
