"""`unsc metrics`."""

from __future__ import annotations

from rich.console import Console


def command() -> None:
    """List the metrics: what they measure, which way is better, and what they need."""
    from unsc.cli.tables import about_metrics

    Console().print(about_metrics())
