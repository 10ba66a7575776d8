"""A log-log picture of how time grows with each factor, with fitted exponents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unsc.bench.speed.row import Line
from unsc.compare.canvas import canvas, save

_COLOURS = {"preparation": "#12508c", "step": "#d9a441"}


def draw_growth(path: Path, lines: Sequence[Line]) -> None:
    """One small picture a factor: seconds of preparation and of a step over it, both axes logarithmic."""
    factors = list(dict.fromkeys(line.noted["factor"] for line in lines))
    columns = min(3, len(factors))
    rows = -(-len(factors) // columns)
    figure = canvas(3.6 * columns, 2.9 * rows)
    every = [t for line in lines for t in line.noted["seconds"]]
    for place, factor in enumerate(factors, start=1):
        axes = figure.add_subplot(rows, columns, place)
        own = [line for line in lines if line.noted["factor"] == factor]
        values = own[0].noted["values"]
        for line in own:
            quantity = line.noted["quantity"]
            label = f"{quantity}: exponent {line.value:.2f}"
            axes.plot(values, line.noted["seconds"], "o-", color=_COLOURS[quantity], label=label)
        axes.set(xscale="log", yscale="log", xlabel=factor, ylim=(min(every) / 2, max(every) * 4))
        axes.set_xticks(values, [f"{v:,}" for v in values])
        axes.set_xticks([], minor=True)  # labels of powers of ten run into each other on a short axis
        axes.set_ylabel("seconds" if place % columns == 1 or columns == 1 else "")
        axes.legend(frameon=False, fontsize=8, loc="upper left")
        axes.grid(which="major", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    save(figure, path)
