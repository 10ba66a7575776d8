"""What a folder holds: a request, a comparison, or results of the benchmarks."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from unsc.errors import InvalidData, InvalidRequest
from unsc.report.comparison import ComparisonRun, is_bench, is_comparison, read_bench, read_comparison
from unsc.report.request import RequestRun, is_request, read_request_run
from unsc.report.rows import RowsRun, is_rows, read_rows_of

Run: TypeAlias = RequestRun | ComparisonRun | RowsRun


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """All that these folders hold, in their order."""
    if not folders:
        raise InvalidRequest("no folder is named; give at least one that a run was written to")
    return [run for folder in folders for run in _read(folder)]


def _read(folder: Path) -> Sequence[Run]:
    if not folder.is_dir():
        raise InvalidRequest(f"there is no folder {folder}; give one that a run was written to")
    with reading(folder):
        if is_comparison(folder):
            return [read_comparison(folder)]
        if is_request(folder):
            return [read_request_run(folder)]
        if is_bench(folder):
            return read_bench(folder)
        if is_rows(folder):
            return read_rows_of(folder)
    raise InvalidRequest(
        f"{folder} holds no run; give a folder that unsc forget, demo, compare or bench wrote (its --out)"
    )


@contextmanager
def reading(where: object) -> Generator[None]:
    """A file that lacks what it should have, or has it in another form, is a message."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as e:
        if isinstance(e, InvalidData):
            raise
        raise InvalidData(
            f"{where} was written by another version of unsc, or is damaged ({type(e).__name__}: {e}); make it again"
        ) from e
