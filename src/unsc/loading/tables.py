"""Tables of texts: CSV and Parquet, read within limits."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from unsc.batches import LABEL_KEYS
from unsc.errors import InvalidData, listing
from unsc.extras import need
from unsc.loading.limits import Limits
from unsc.loading.records import Records

TEXT_KEYS = ("text", "sentence")
"""Columns that hold the text of a sample."""


@dataclass(frozen=True)
class Table:
    """Columns of the same length."""

    columns: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Texts:
    """Texts by position."""

    texts: Sequence[str]

    def raw(self, i: int) -> str:
        return self.texts[i]

    def stored(self, i: int) -> bytes:
        return self.texts[i].encode()


def as_records(table: Table, where: str) -> Records:
    """A table with a column of texts, one of labels and perhaps one of ids."""
    text = _column(table, TEXT_KEYS, where, "texts")
    label = _column(table, LABEL_KEYS, where, "labels")
    others = {name: values for name, values in table.columns.items() if name not in (text, label)}
    labels = table.columns[label]
    if not labels:
        raise InvalidData(f"{where} has no rows; give the data the model was trained on")
    if "" in labels:
        raise InvalidData(f"row {labels.index('')} of {where} has no label; give each row one")
    return Records("texts", Texts(table.columns[text]), labels, table.columns.get("id"), others)


def _column(table: Table, keys: Sequence[str], where: str, what: str) -> str:
    for key in keys:
        if key in table.columns:
            return key
    raise InvalidData(
        f"{where} has the columns {listing(table.columns)}; the column of {what} must be called {' or '.join(keys)}"
    )


def read_csv(path: Path, limits: Limits) -> Table:
    """A CSV file in UTF-8 whose first row names the columns."""
    limits.check("table_bytes", path.stat().st_size, f"{path} is too large a file")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _rows_of(file, path, limits)
    except UnicodeDecodeError as e:
        raise InvalidData(f"{path} is not UTF-8 ({e.reason} at byte {e.start}); convert it") from e
    except csv.Error as e:
        raise InvalidData(
            f"{path} is no sound CSV file ({e}); correct it. A field may have {limits.field_chars:,} characters"
        ) from e


class _Lines:
    """The lines of a file, as long as those of one row stay within the limit."""

    def __init__(self, file: TextIO, path: Path, limits: Limits) -> None:
        self._file, self._path, self._limits = file, path, limits
        self.row = 0
        self.chars = 0

    def __iter__(self) -> Iterator[str]:
        while line := self._file.readline(self._limits.row_chars + 1):
            self.chars += len(line)
            self._limits.check("row_chars", self.chars, f"row {self.row} of {self._path} is too long")
            yield line


def _rows_of(file: TextIO, path: Path, limits: Limits) -> Table:
    lines = _Lines(file, path, limits)
    rows = csv.reader(lines, strict=True)
    head = next(rows, None)
    if not head:
        raise InvalidData(f"{path} is empty; its first row must name the columns")
    if len(set(head)) < len(head):
        raise InvalidData(f"{path} has the columns {listing(head)}, some of them twice; give each its own name")
    columns: list[list[str]] = [[] for _ in head]
    for row in rows:
        lines.row, lines.chars = lines.row + 1, 0
        if not row:  # an empty line
            continue
        if len(row) != len(head):
            raise InvalidData(
                f"row {lines.row} of {path} has {len(row)} fields where the first row has {len(head)}; quote fields "
                "that hold commas"
            )
        limits.check("samples", len(columns[0]) + 1, f"{path} has too many rows")
        for name, column, value in zip(head, columns, row, strict=True):
            limits.check("field_chars", len(value), f"{name} in row {lines.row} of {path} is too long")
            column.append(value)
    return Table(dict(zip(head, columns, strict=True)))


def read_parquet(path: Path, limits: Limits) -> Table:
    """The columns of a Parquet file that hold texts, whole numbers or truth values, as text."""
    parquet = need("pyarrow.parquet", extra="parquet")
    arrow = need("pyarrow", extra="parquet")
    try:
        with parquet.ParquetFile(path) as file:
            kinds = _kinds_of(file.schema_arrow, path)
        texts = [name for name, kind in kinds.items() if _is_text(kind, arrow.types)]
        whole = [n for n, kind in kinds.items() if arrow.types.is_integer(kind) or arrow.types.is_boolean(kind)]
        for name in (*TEXT_KEYS, *LABEL_KEYS, "id"):  # without its ids, samples would go by their row
            if name in kinds and name not in (*texts, *whole):
                raise InvalidData(f"{name} in {path} is of type {kinds[name]}; write it as texts or whole numbers")
        # A text that is repeated takes its space once as long as it stays in a dictionary.
        with parquet.ParquetFile(path, read_dictionary=texts) as file:
            return _columns_of(file, [*texts, *whole], path, limits)
    except (arrow.ArrowException, OSError) as e:
        raise InvalidData(f"{path} cannot be read as Parquet ({e}); write it again") from e


def _kinds_of(schema: Any, path: Path) -> dict[str, Any]:
    """The type of each column, by its name."""
    kinds = {field.name: field.type for field in schema}
    if len(kinds) < len(schema):
        raise InvalidData(f"{path} has the columns {listing(schema.names)}, some of them twice; give each its own name")
    return kinds


def _is_text(kind: Any, types: Any) -> bool:
    """Whether a column holds texts, perhaps as categories."""
    values = kind.value_type if types.is_dictionary(kind) else kind
    return types.is_string(values) or types.is_large_string(values)


def _columns_of(file: Any, names: list[str], path: Path, limits: Limits) -> Table:
    limits.check("samples", file.metadata.num_rows, f"{path} has too many rows")
    compute = need("pyarrow.compute", extra="parquet")
    columns: dict[str, list[str]] = {name: [] for name in names}
    chars = 0
    for batch in file.iter_batches(batch_size=1024, columns=names):
        for name in names:
            column = batch.column(name)
            if hasattr(column, "dictionary"):
                longest = compute.max(compute.utf8_length(column.dictionary)).as_py() or 0
                limits.check("field_chars", longest, f"{name} of {path} holds too long a text")
            found = ["" if value is None else str(value) for value in column.to_pylist()]
            chars += sum(map(len, found))
            limits.check("table_bytes", chars, f"{path} is too large, unpacked")
            columns[name] += found
    return Table(columns)
