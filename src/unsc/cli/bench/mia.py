"""`unsc bench mia`."""

from __future__ import annotations

from unsc.cli.bench.options import OUT, Out, Scenario
from unsc.cli.output import written


def command(data: Scenario = "fashion-mnist", out: Out = OUT) -> None:
    """The membership attack as bars, from the results of table1."""
    from unsc.bench.figures.shared.make import draw_results

    for path in draw_results("mia", data, out):
        written(path)
