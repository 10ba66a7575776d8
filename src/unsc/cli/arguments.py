"""What several commands read in the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unsc.errors import InvalidRequest

DATA = (
    "digits or digits-noisy; fashion-mnist, svhn, cifar-10, cifar-100 or records in the folder UNSC_DATA; or "
    "package.module:function."
)
"""The help of an option that names a scenario."""

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a result that is there already.")]
"""Nothing is overwritten in silence: what was stopped resumes, and anything else is refused without this."""

Model = Annotated[str, typer.Option(help="package.module:factory, or a folder that transformers saved.")]
Weights = Annotated[
    Path | None, typer.Option(help="The model's weights: .safetensors, or .pt or .pth with tensors alone.")
]
TrainingData = Annotated[
    str,
    typer.Option(
        help="Training data: a folder with one folder of images for each class, .npz, .csv or .parquet, a folder that "
        "datasets saved, or package.module:dataset."
    ),
]
Transform = Annotated[
    str | None, typer.Option(help="package.module:function that makes a tensor of an image, a text or an array.")
]
Decoders = Annotated[int | None, typer.Option(help="Processes that decode images; by default up to 4, 0 for none.")]
Cluster = Annotated[
    str | None,
    typer.Option(help="Work on a Ray cluster: its address, auto for the one of this machine, or local to start one."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON in the place of a table.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Load everything, say what would be forgotten, and write nothing.")
]


def default_folder(command: str, data: str) -> Path:
    """Where a command puts what it finds on this data: whatever users run goes to `runs`."""
    return Path("runs") / f"{command}-{data.replace(':', '-')}"


def result_file(out: Path, name: str) -> Path:
    """The file for a result: `out`, or `name` in it if that is a folder. A name without an ending is a folder's."""
    return out / name if out.is_dir() or not out.suffix else out


def refuse_to_replace(path: Path) -> None:
    """Refuse a place that holds something already; an empty folder does not."""
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise InvalidRequest(f"{path} exists already; name another with --out, or replace it with --overwrite")


def refuse_options(when: str, **given: object) -> None:
    """Refuse options that do nothing in this use of a command."""
    for name, value in given.items():
        if value is not None:
            raise InvalidRequest(f"--{name} does nothing {when}; leave it out")


def numbers(text: str, option: str) -> list[int]:
    """The whole numbers of a list like "3,5"; `option` is named in the error."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InvalidRequest(f"{option} {text!r}; give whole numbers separated by commas, like 3 or 3,5") from None


_TRUTHS = {"true": True, "false": False}


def option_values(text: str | None) -> dict[str, int | float | str]:
    """Options by name, of a list like "max_passes=4,step=paper"."""
    found: dict[str, int | float | str] = {}
    for part in text.split(",") if text else ():
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value) or name in found:
            raise InvalidRequest(f"--options {text!r}; give each option once, as in max_passes=4,step=paper")
        found[name] = _value(value)
    return found


def _value(text: str) -> int | float | str:
    if text in _TRUTHS:
        return _TRUTHS[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def names(text: str | None) -> tuple[str, ...] | None:
    """The names of a list like "a,b"; None if nothing was given."""
    return tuple(name.strip() for name in text.split(",")) if text else None
