"""A data set whose samples are made in other processes when many are asked for at once."""

from __future__ import annotations

import os
import pickle
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch.utils.data import Dataset, TensorDataset

from unsc.datasets import size_of
from unsc.errors import InvalidData, UnscError
from unsc.workers import Workers

_FEW = 16
"""Samples for which no process is started."""
_PIECE = 8
"""Samples that a process is given at a time."""


def usual_workers() -> int:
    """As many processes as there are cores for each process that `torchrun` started here, at most four."""
    return min(4, (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


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
    targets: Sequence[int] | None = None
    classes: tuple[str, ...] | None = None
    option: str = "--workers"
    """What a user sets the number of processes by; a message names it."""
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
            self._started.append(Workers(_Made(self.dataset), self.count, option=self.option))
        pieces = [tuple(positions[i : i + _PIECE]) for i in range(0, len(positions), _PIECE)]
        packed = dict(self._started[0].results(list(dict.fromkeys(pieces))))
        for found in packed.values():
            if isinstance(found, str):
                raise InvalidData(found)
        made = {piece: pickle.loads(found) for piece, found in packed.items() if isinstance(found, bytes)}
        return [sample for piece in pieces for sample in made[piece]]

    def close(self) -> None:
        """End the processes."""
        for workers in self._started:
            workers.__exit__(None)
        self._started.clear()


@contextmanager
def in_workers(dataset: Dataset[Any], count: int) -> Generator[Dataset[Any], None, None]:
    """The same samples, made by `count` processes while the context lasts; with 0, and for tensors, in this one."""
    if count == 0 or isinstance(dataset, TensorDataset | InWorkers):
        yield dataset
        return
    try:
        pickle.dumps(dataset)
    except Exception as e:  # whatever a user's own class raises
        raise InvalidData(
            f"the data set cannot be handed to other processes ({type(e).__name__}: {e}); use classes and functions of "
            "a module in the place of lambdas and local ones, or num_workers=0"
        ) from e
    made = InWorkers(dataset, count, option="num_workers")
    try:
        yield made
    finally:
        made.close()
