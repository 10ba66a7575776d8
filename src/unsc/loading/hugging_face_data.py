"""Data sets in folders that `datasets` saved (`save_to_disk`): images, texts, or what a model takes as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unsc.batches import LABEL_KEYS
from unsc.errors import InvalidData, listing
from unsc.extras import need
from unsc.loading.hugging_face import EXTRA
from unsc.loading.images import decode
from unsc.loading.inside import check_inside, files_below
from unsc.loading.limits import Limits
from unsc.loading.models import Kind
from unsc.loading.records import Content, Records
from unsc.loading.tables import TEXT_KEYS

_OF_ONE, _OF_SPLITS = "state.json", "dataset_dict.json"


def is_saved(folder: Path) -> bool:
    """Whether `datasets` saved something in this folder."""
    return (folder / _OF_ONE).is_file() or (folder / _OF_SPLITS).is_file()


@dataclass(frozen=True)
class ImageColumn:
    """A column of images, which are decoded within limits."""

    rows: Any
    name: str
    root: Path
    limits: Limits

    def stored(self, i: int) -> bytes:
        cell = self.rows[i][self.name]
        if not cell or cell.get("bytes") is None:
            raise InvalidData(
                f"row {i} of {self.root} holds no image but at most the path of one; save the data set with its images "
                "(datasets.Image() embeds them)"
            )
        self.limits.check("image_bytes", len(cell["bytes"]), f"the image in row {i} of {self.root} is too large")
        return cell["bytes"]

    def raw(self, i: int) -> Any:
        return decode(self.stored(i), f"row {i} of {self.root}", self.limits)


@dataclass(frozen=True)
class TextColumn:
    """A column of texts."""

    rows: Any
    name: str

    def raw(self, i: int) -> str:
        return self.rows[i][self.name] or ""

    def stored(self, i: int) -> bytes:
        return self.raw(i).encode()


@dataclass(frozen=True)
class WholeRows:
    """Rows of numbers, such as tokens, which go into the model by the names of their columns."""

    rows: Any

    def raw(self, i: int) -> dict[str, Any]:
        return self.rows[i]

    def stored(self, i: int) -> bytes:
        return json.dumps(self.rows[i], sort_keys=True, default=str).encode()


def read_saved(folder: Path, limits: Limits) -> Records:
    """The samples of a data set that `datasets` saved."""
    _check_files(folder)
    library = need("datasets", extra=EXTRA)
    try:
        rows = library.load_from_disk(str(folder))
    except Exception as e:  # damaged files make the library raise anything
        raise InvalidData(f"datasets cannot load {folder} ({type(e).__name__}: {e}); save it again") from e
    limits.check("samples", len(rows), f"{folder} has too many rows")
    label = next((key for key in LABEL_KEYS if key in rows.features), None)
    if label is None or not len(rows):
        raise InvalidData(
            f"{folder} has {len(rows)} rows with the columns {listing(rows.features)}; it needs rows, and a column of "
            f"labels called {' or '.join(LABEL_KEYS)}"
        )
    labels = rows[label][:]
    if not all(isinstance(one, (int, str)) for one in labels):
        raise InvalidData(f"{folder} has labels that are neither whole numbers nor names, such as {labels[0]!r:.80}")
    names = getattr(rows.features[label], "names", None)
    columns = {name: [str(value) for value in rows[name][:]] for name in _plain(rows.features, library)}
    kind, content = _content(rows, library, folder, limits, label)
    return Records(kind, content, labels, columns.get("id"), columns, tuple(names) if names else None)


def _check_files(folder: Path) -> None:
    """Refuse splits, and files that lie elsewhere."""
    if (folder / _OF_SPLITS).is_file():
        splits = sorted(path.parent.name for path in folder.glob(f"*/{_OF_ONE}"))
        example = folder / (splits[0] if splits else "train")
        raise InvalidData(f"{folder} holds the splits {listing(splits)}; name one of them, as in {example}")
    for path in files_below(folder, root=folder):
        check_inside(folder, path)
    try:
        listed = json.loads((folder / _OF_ONE).read_text())["_data_files"]
        paths = [folder / one["filename"] for one in listed]
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise InvalidData(f"{folder / _OF_ONE} cannot be read ({type(e).__name__}); save the data set again") from e
    for path in paths:
        check_inside(folder, path)


def _content(rows: Any, library: Any, folder: Path, limits: Limits, label: str) -> tuple[Kind, Content]:
    images = [name for name, kind in rows.features.items() if isinstance(kind, library.Image)]
    if len(images) == 1:
        still_packed = rows.select_columns(images).cast_column(images[0], library.Image(decode=False))
        return "images", ImageColumn(still_packed, images[0], folder, limits)
    texts = [key for key in TEXT_KEYS if key in rows.features]
    numbers = [name for name, kind in rows.features.items() if name != label and _is_list(kind, library)]
    if texts and not numbers:
        return "texts", TextColumn(rows.select_columns(texts[:1]), texts[0])
    if not images and numbers:
        return "rows", WholeRows(rows.select_columns(numbers))
    raise InvalidData(
        f"{folder} has the columns {listing(rows.features)}; it needs one column of images, one of texts called "
        f"{' or '.join(TEXT_KEYS)}, or columns of lists of numbers (tokens) that the model takes by name"
    )


def _is_list(kind: Any, library: Any) -> bool:
    lists = tuple(getattr(library, name) for name in ("Sequence", "List", "LargeList") if hasattr(library, name))
    return isinstance(kind, (list, *(one for one in lists if isinstance(one, type))))


def _plain(features: Any, library: Any) -> Iterator[str]:
    """Columns of single values, which say who a sample belongs to."""
    return (name for name, kind in features.items() if isinstance(kind, library.Value) and name not in TEXT_KEYS)
