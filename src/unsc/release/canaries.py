"""Canaries: retained samples that the user chose to keep in the store, to measure on when a request comes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unsc.batches import Batch
from unsc.errors import InvalidData, InvalidRequest
from unsc.release.strict import Fields
from unsc.storage.files import load_tensors, save_tensors

_KIND, _VERSION = "unsc canaries", 1
_LABELS, _ONE, _SEVERAL, _NAMED = "labels", "input", "inputs/", "named/"


@dataclass(frozen=True)
class Canaries:
    """Samples as the network takes them, and their ids; there may be none."""

    batch: Batch
    ids: tuple[str, ...]

    @classmethod
    def none(cls) -> Canaries:
        return cls(Batch(torch.zeros(0, 0), torch.zeros(0, dtype=torch.long)), ())

    def __len__(self) -> int:
        return len(self.ids)

    def without(self, ids: Collection[str]) -> Canaries:
        """Those that are not deleted."""
        kept = [i for i, id_ in enumerate(self.ids) if id_ not in ids]
        return Canaries(self.batch[torch.tensor(kept, dtype=torch.long)], tuple(self.ids[i] for i in kept))

    def save(self, path: Path) -> None:
        """Write a safetensors file that `Canaries.load` reads."""
        tensors = {_LABELS: self.batch.labels} | _by_name(self.batch.inputs)
        save_tensors(path, tensors, {"kind": _KIND, "version": _VERSION, "ids": list(self.ids)})

    @classmethod
    def load(cls, path: Path) -> Canaries:
        tensors, metadata = load_tensors(path)
        ids = Fields.of(metadata, str(path), kind=_KIND, version=_VERSION, names=("ids",)).texts("ids")
        labels = tensors.pop(_LABELS, torch.zeros(0))
        wrong = [name for name, t in tensors.items() if t.dim() == 0 or len(t) != len(ids)]
        if wrong or not tensors or labels.dtype != torch.long or labels.shape != (len(ids),):
            raise InvalidData(f"{path} does not hold {len(ids)} samples and their labels; it is damaged")
        return cls(Batch(_inputs(tensors, path), labels), ids)


def _by_name(inputs: Any) -> dict[str, Tensor]:
    if isinstance(inputs, dict):
        found = {f"{_NAMED}{name}": value for name, value in inputs.items()}
    elif isinstance(inputs, (tuple, list)):
        found = {f"{_SEVERAL}{i}": value for i, value in enumerate(inputs)}
    else:
        found = {_ONE: inputs}
    strange = sorted(name for name, value in found.items() if not torch.is_tensor(value))
    if strange:
        raise InvalidRequest(f"the model's {strange[0]} is no tensor, so no canaries can be kept; leave canaries at 0")
    return found


def _inputs(tensors: dict[str, Tensor], path: Path) -> Any:
    if set(tensors) == {_ONE}:
        return tensors[_ONE]
    if all(name.startswith(_NAMED) for name in tensors):
        return {name.removeprefix(_NAMED): value for name, value in tensors.items()}
    if set(tensors) == {f"{_SEVERAL}{i}" for i in range(len(tensors))}:
        return tuple(tensors[f"{_SEVERAL}{i}"] for i in range(len(tensors)))
    raise InvalidData(f"{path} does not hold inputs of one model; it is damaged")
