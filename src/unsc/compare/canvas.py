"""Pictures: an empty figure to draw on, and a file that is written whole."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unsc.extras import need
from unsc.storage.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def canvas(width: float, height: float) -> Figure:
    """An empty figure of this size in inches. It is drawn without a display, and no global state is touched."""
    figure = need("matplotlib.figure", extra="figures").Figure(figsize=(width, height), layout="constrained")
    need("matplotlib.backends.backend_agg", extra="figures").FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write the figure to `path`, at 150 dots per inch."""
    write_whole(path, lambda p: figure.savefig(p, dpi=150))
