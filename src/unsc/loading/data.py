"""A user's training data: files of several kinds, or a data set of their own code."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from unsc.checks import is_whole, require
from unsc.datasets import as_source, read_labels
from unsc.errors import InvalidData, InvalidRequest, listing, unknown
from unsc.forms import Collate
from unsc.loading.arrays import read_npz, row_as_tensor
from unsc.loading.code import import_callable, is_import_path
from unsc.loading.hugging_face_data import is_saved, read_saved
from unsc.loading.images import AsTensor, are_gray, read_image_folder
from unsc.loading.in_workers import InWorkers
from unsc.loading.labels import numbered_labels, unique_ids
from unsc.loading.limits import Limits
from unsc.loading.models import LoadedModel, Transform
from unsc.loading.own import OwnContent, columns_of, ids_of, make_dataset
from unsc.loading.records import Content, Prepared, Records
from unsc.loading.tables import as_records, read_csv, read_parquet
from unsc.names import names_in_data

_KINDS = (
    "a folder with one folder of images for each class, an .npz, .csv or .parquet file, a folder that datasets saved, "
    "or package.module:dataset"
)


@dataclass(frozen=True, repr=False)
class LoadedData:
    """Samples as a model takes them, with what is known of each."""

    spec: str
    """Where they came from."""
    dataset: Dataset[Any]
    """Map-style, `(x, y)` or dicts."""
    collate: Collate | None
    """How samples become a batch, for `collate_fn=...`; None stacks them."""
    labels: Tensor
    """Each sample's class, int64 (n,)."""
    class_names: tuple[str, ...] | None
    """By number; None where nobody says."""
    ids: Sequence[str]
    """One for each sample, all different: an image's path in its folder, the column `id`, else the row's number."""
    columns: Mapping[str, Sequence[str]]
    """What else the source says of each sample."""
    content: Content

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"<LoadedData {self.spec}: {len(self)} samples of {len(self.labels.unique())} classes>"

    def column(self, name: str) -> Sequence[str]:
        """What a column, such as the user's, says of each sample."""
        if name not in self.columns:
            if not self.columns:
                raise InvalidRequest(f"{self.spec} has no columns beside inputs and labels; add {name!r}")
            raise unknown("column", name, self.columns)
        return self.columns[name]

    def fingerprint(self, i: int) -> str:
        """SHA-256, in hex, of a sample's own bytes as they lie in the source; copies of a sample have the same."""
        return hashlib.sha256(self.content.stored(i)).hexdigest()

    def positions(self, ids: Iterable[str]) -> list[int]:
        """Where the samples with these `ids` are."""
        places = {one: i for i, one in enumerate(self.ids)}
        wanted = list(ids)
        missing = [one for one in wanted if one not in places]
        if missing:
            raise InvalidRequest(
                f"{self.spec} has no sample with the id {listing(map(repr, missing), limit=4)}; its ids look like "
                f"{self.ids[0]!r}"
            )
        return [places[one] for one in wanted]


def load_data(
    spec: str,
    *,
    model: LoadedModel,
    transform: str | None = None,
    workers: int = 0,
    limits: Limits | None = None,
    search: str | Path = ".",
) -> LoadedData:
    """The data that `spec` names, as `model` takes it: files, or `package.module:dataset`.

    Raw samples go through the user's `transform`, `package.module:function`, else through the model's own processor
    or tokenizer. Without either, images become floats (channels, height, width) from 0 to 1, and arrays tensors.
    Images are decoded in `workers` processes; other data needs none. Names of classes are numbered as the model numbers
    them, if it has names. The folder `search` is where modules may be.
    """
    require("workers", workers, "a whole number of at least 0", is_whole(workers, 0))
    limits = limits or Limits()
    if is_import_path(spec) and not Path(spec).exists():
        if transform is not None:
            raise InvalidRequest(f"{spec} makes its samples itself; leave --transform {transform} out")
        return _own(spec, model, Path(search))
    records = _read(spec, limits)
    targets, names = numbered_labels(records, model.class_names, spec)
    prepare, collate = _preparation(records, model, transform, Path(search))
    dataset: Dataset[Any] = Prepared(records.content, prepare, targets, names)
    if workers > 0 and records.kind == "images":
        dataset = InWorkers(dataset, workers, targets, names)
    ids = unique_ids(records.ids, len(records), spec)
    return LoadedData(spec, dataset, collate, torch.tensor(targets), names, ids, records.columns, records.content)


def _own(spec: str, model: LoadedModel, search: Path) -> LoadedData:
    dataset = make_dataset(spec, search)
    numbers = names_in_data(dataset)
    names = tuple(sorted(numbers, key=numbers.__getitem__)) if numbers else None
    if names and model.class_names and names != model.class_names:
        raise InvalidData(
            f"{spec} has the classes {listing(names)}, and the model {listing(model.class_names)}; they must be the "
            "same, in the same order: correct one of the two"
        )
    labels = read_labels(as_source(dataset, model.model, collate_fn=model.collate))
    ids = unique_ids(ids_of(dataset, spec), len(labels), spec)
    known = names or model.class_names
    return LoadedData(spec, dataset, model.collate, labels, known, ids, columns_of(dataset, spec), OwnContent(dataset))


def _read(spec: str, limits: Limits) -> Records:
    """The samples of a file or folder."""
    path = Path(spec)
    if path.is_dir():
        return read_saved(path, limits) if is_saved(path) else read_image_folder(path, limits)
    if not path.is_file():
        raise InvalidRequest(f"there is no data {spec!r}; give {_KINDS}")
    ending = path.suffix.lower()
    if ending == ".npz":
        return read_npz(path, limits)
    if ending == ".csv":
        return as_records(read_csv(path, limits), spec)
    if ending == ".parquet":
        return as_records(read_parquet(path, limits), spec)
    raise InvalidRequest(f"{spec} ends in {ending!r}, which is not known; give {_KINDS}")


class _ByPath:
    """A user's function. Worker processes import it for themselves."""

    def __init__(self, path: str, search: Path) -> None:
        self._path, self._search = path, search
        self._function: Callable[[Any], Any] = import_callable(path, search=search)

    def __reduce__(self) -> tuple[type[_ByPath], tuple[str, Path]]:
        return _ByPath, (self._path, self._search)

    def __call__(self, raw: Any) -> Any:
        return self._function(raw)


def _preparation(
    records: Records, model: LoadedModel, transform: str | None, search: Path
) -> tuple[Transform, Collate | None]:
    """How raw samples become what the model takes, and how those become a batch."""
    kind, content = records.kind, records.content
    if kind == "rows":
        if transform is not None:
            raise InvalidRequest(f"the data holds what the model takes as it is; leave --transform {transform} out")
        return dict, model.collate
    if transform is not None:
        return _ByPath(transform, search.resolve()), None
    if model.transform is not None and kind == model.takes:
        return model.transform, model.collate
    if kind == "texts" or model.takes == "texts":
        has = f"is for {model.takes}" if model.takes else "has no tokenizer"
        raise InvalidData(
            f"the data holds {kind}, and the model {has}; give --transform package.module:function, which takes one of "
            "them and gives a tensor"
        )
    if kind == "arrays":
        return row_as_tensor, None
    return AsTensor(are_gray(content.raw, len(records))), None
