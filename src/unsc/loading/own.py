"""A data set that a user's own code makes: its ids, its columns, and the bytes of its samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from unsc.batches import LABEL_KEYS
from unsc.datasets import check_map_style, size_of
from unsc.errors import InvalidData, listing
from unsc.loading.code import made_by


def make_dataset(spec: str, search: Path) -> Dataset[Any]:
    """What `package.module:dataset` gives, checked to be a map-style data set with samples."""
    made: object = made_by(spec, search=search)
    if isinstance(made, tuple):
        raise InvalidData(f"{spec} gives a tuple; it must give one data set, the training data")
    check_map_style(made)
    dataset = cast("Dataset[Any]", made)
    if size_of(dataset) == 0:
        raise InvalidData(f"{spec} gives a data set without samples; give the data the model was trained on")
    return dataset


def ids_of(dataset: Dataset[Any], spec: str) -> list[str] | None:
    """The ids that a data set offers as `.ids`, as text; None if it has none."""
    ids = getattr(dataset, "ids", None)
    if ids is None:
        return None
    found = [str(one) for one in ids]
    if len(found) != size_of(dataset):
        raise InvalidData(f"{spec} has {len(found)} ids for {size_of(dataset)} samples; give one for each")
    return found


def columns_of(dataset: Dataset[Any], spec: str) -> dict[str, list[str]]:
    """What a data set says of its samples as `.columns`, a dict of sequences; empty if it does not."""
    columns = getattr(dataset, "columns", None)
    if not isinstance(columns, Mapping):
        return {}
    found = {str(name): [str(value) for value in values] for name, values in columns.items()}
    wrong = [name for name, values in found.items() if len(values) != size_of(dataset)]
    if wrong:
        raise InvalidData(f"{spec} has columns {listing(wrong)} of another length than its {size_of(dataset)} samples")
    return found


@dataclass(frozen=True)
class OwnContent:
    """The samples of a data set, of which only their bytes are asked for."""

    dataset: Dataset[Any]

    def raw(self, i: int) -> Any:
        return self.dataset[i]

    def stored(self, i: int) -> bytes:
        """Of all that goes into the model; the label is left out."""
        sample = self.dataset[i]
        if isinstance(sample, Mapping):
            inputs: Any = {key: value for key, value in sample.items() if key not in LABEL_KEYS}
        else:
            inputs = tuple(sample[:-1])
        return b"\0".join(_bytes(inputs))


def _bytes(value: Any) -> Iterator[bytes]:
    """What a value consists of; values that differ give different bytes."""
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield str(key).encode()
            yield from _bytes(value[key])
    elif isinstance(value, (tuple, list)):
        yield str(len(value)).encode()
        for part in value:
            yield from _bytes(part)
    elif isinstance(value, Tensor):
        yield f"{value.dtype} {tuple(value.shape)}".encode()
        yield value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    elif isinstance(value, (np.ndarray, np.generic)):
        yield from _bytes(torch.as_tensor(np.asarray(value)))
    elif isinstance(value, (str, int, float, bool, bytes)):
        yield value if isinstance(value, bytes) else str(value).encode()
    else:
        raise InvalidData(f"a sample holds a {type(value).__name__}, whose bytes are not known; give tensors")
