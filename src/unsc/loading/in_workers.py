"""A data set whose samples are made in other processes when many are asked for at once."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch.utils.data import Dataset

from unsc.datasets import size_of
from unsc.errors import InvalidData, UnscError
from unsc.workers import Workers

_FEW = 16
"""Samples for which no process is started."""
_PIECE = 8
"""Samples that a process is given at a time."""


def usual_workers() -> int:
    """As many processes as there are cores, at most four."""
    return min(4, os.cpu_count() or 1)


@dataclass(frozen=True)
class _Made:
    """Makes samples, in whatever process this is."""

    dataset: Dataset[Any]

    def __call__(self, positions: tuple[int, ...]) -> bytes | str:
        """The samples, packed: tensors then need no memory that processes share. What went wrong is a text."""
        try:
            return pickle.dumps([self.dataset[i] for i in positions])
        except UnscError as e:
            return str(e)
        except Exception as e:  # a user's own transform may raise anything
            return f"one of the samples {positions} cannot be made ({type(e).__name__}: {e}); correct the transform"


@dataclass(frozen=True)
class InWorkers(Dataset[Any]):
    """The samples of `dataset`, made by `count` processes; these start when they are first needed, and end with it."""

    dataset: Dataset[Any]
    count: int
    targets: Sequence[int]
    classes: tuple[str, ...] | None
    _started: list[Workers[tuple[int, ...], bytes | str]] = field(default_factory=list, repr=False, compare=False)

    def __len__(self) -> int:
        return size_of(self.dataset)

    def __getitem__(self, i: int) -> Any:
        return self.dataset[i]

    def __getitems__(self, positions: Sequence[int]) -> list[Any]:
        """Several samples, in the order asked for."""
        if len(positions) < _FEW:
            return [self.dataset[i] for i in positions]
        if not self._started:
            self._started.append(Workers(_Made(self.dataset), self.count, option="--workers"))
        pieces = [tuple(positions[i : i + _PIECE]) for i in range(0, len(positions), _PIECE)]
        packed = dict(self._started[0].results(list(dict.fromkeys(pieces))))
        for found in packed.values():
            if isinstance(found, str):
                raise InvalidData(found)
        made = {piece: pickle.loads(found) for piece, found in packed.items() if isinstance(found, bytes)}
        return [sample for piece in pieces for sample in made[piece]]
