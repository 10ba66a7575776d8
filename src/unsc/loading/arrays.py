"""Samples in an .npz file: an array of inputs, one of labels, and perhaps ids, names of classes and other columns."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.lib import format as npy
from torch import Tensor

from unsc.batches import LABEL_KEYS
from unsc.errors import InvalidData, UnscError, listing
from unsc.loading.limits import Limits
from unsc.loading.records import Records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

INPUT_KEYS = ("x", "inputs", "images", "data")
_MEMBERS = 256
_HEADER = 1 << 16
"""Bytes before an array's numbers, at most."""


@dataclass(frozen=True)
class Rows:
    """The rows of an array."""

    array: Array

    def raw(self, i: int) -> Array:
        return self.array[i]

    def stored(self, i: int) -> bytes:
        return np.ascontiguousarray(self.array[i]).tobytes()


def row_as_tensor(row: Array) -> Tensor:
    """A row as the model takes it: bytes, which are pixels, become floats from 0 to 1; all else stays what it is."""
    made = torch.from_numpy(np.array(row))
    if made.dtype == torch.uint8:
        return made.float() / 255
    return made.float() if made.dtype == torch.float64 else made


def read_npz(path: Path, limits: Limits) -> Records:
    """The samples of an .npz file. Arrays of Python objects are refused: reading them would run code."""
    try:
        with zipfile.ZipFile(path) as archive:
            _check_members(archive, path, limits)
        with np.load(path, allow_pickle=False) as file:
            arrays: dict[str, Array] = {name: file[name] for name in file.files}
    except UnscError:
        raise
    except Exception as e:  # damaged archives make their readers raise anything
        raise InvalidData(f"{path} cannot be read ({type(e).__name__}: {e}); write it again by numpy.savez") from e
    x, y = (_array(arrays, keys, path) for keys in (INPUT_KEYS, LABEL_KEYS))
    inputs, labels = arrays.pop(x), arrays.pop(y)
    names = arrays.pop("classes", None)
    if labels.ndim != 1 or labels.dtype.kind not in "iuU" or inputs.ndim < 2 or len(inputs) != len(labels):
        raise InvalidData(
            f"{path} has {x} of shape {inputs.shape} and {y} of shape {labels.shape} and type {labels.dtype}; give one "
            "row and one label, a whole number or a name, for each sample"
        )
    if not len(labels):
        raise InvalidData(f"{path} has no samples; give the data the model was trained on")
    limits.check("samples", len(labels), f"{path} has too many samples")
    if "id" in arrays and arrays["id"].shape != labels.shape:  # row numbers in their place would name other samples
        raise InvalidData(f"{path} has id of shape {arrays['id'].shape} for {len(labels)} samples; give one for each")
    columns = {name: _texts(values) for name, values in arrays.items() if values.shape == labels.shape}
    return Records("arrays", Rows(inputs), labels.tolist(), columns.get("id"), columns, _names(names, labels, path))


def _check_members(archive: zipfile.ZipFile, path: Path, limits: Limits) -> None:
    """Read the heads of the arrays alone: their types, and whether they have the sizes they say."""
    members = archive.infolist()
    if len(members) > _MEMBERS:
        raise InvalidData(f"{path} holds {len(members)} arrays; at most {_MEMBERS} are read")
    limits.check("array_bytes", sum(member.file_size for member in members), f"{path} is too large, unpacked")
    for member in members:
        with archive.open(member) as file:
            version = npy.read_magic(file)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, _, kind = read(file)
        if kind.hasobject:
            raise InvalidData(
                f"{member.filename} in {path} holds Python objects, and reading them would run code; save numbers or "
                "texts (of a list of names, numpy.array(names, dtype=str))"
            )
        size = math.prod(shape) * kind.itemsize
        if not size <= member.file_size <= size + _HEADER:
            raise InvalidData(
                f"{member.filename} in {path} says that it has {size:,} bytes, and has {member.file_size:,}; write it "
                "again"
            )


def _array(arrays: dict[str, Array], keys: Sequence[str], path: Path) -> str:
    for key in keys:
        if key in arrays:
            return key
    raise InvalidData(f"{path} has the arrays {listing(arrays)}; one must be called {' or '.join(keys)}")


def _names(names: Array | None, labels: Array, path: Path) -> tuple[str, ...] | None:
    if names is None:
        return None
    found = tuple(_texts(names.reshape(-1)))
    if labels.dtype.kind != "U" and not 0 <= labels.min() <= labels.max() < len(found):
        raise InvalidData(
            f"{path} names {len(found)} classes and has labels from {labels.min()} to {labels.max()}; name all classes"
        )
    return found


def _texts(values: Array) -> list[str]:
    return [str(value) for value in values.tolist()]
