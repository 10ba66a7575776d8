"""The command line: options in, tables out; no logic."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from unsc.errors import InvalidRequest, UnscError

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Make a trained classifier forget, and show how well it did."
)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if show:
        from unsc import __version__

        print(__version__)
        raise typer.Exit


@app.command()
def demo(
    classes: Annotated[str, typer.Option(help="Digits to forget, separated by commas.")] = "3",
    out: Annotated[Path, typer.Option(help="Folder for the run; a former demo there is replaced.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="Seed of training and forgetting.")] = 0,
) -> None:
    """Train a small CNN on handwritten digits, forget a class in several ways, and compare."""
    from unsc import demo as the_demo
    from unsc.progress import bar

    chosen = _numbers(classes)
    rows = the_demo.demo(chosen, out=out, seed=seed, progress=bar)
    console = Console()
    the_demo.show(rows, chosen, console)
    console.print(f"Written to {out}: metrics.json, config.json, two checkpoints, class_accuracy.png", soft_wrap=True)


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InvalidRequest(f"--classes {text!r}; give whole numbers separated by commas, like 3 or 3,5") from None


def main() -> None:
    """Entry point: a user's mistake is a message, not a traceback."""
    try:
        app()
    except UnscError as e:
        Console(stderr=True).print(f"error: {e}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
