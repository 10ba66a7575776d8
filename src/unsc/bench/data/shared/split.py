"""A data set in two parts, for training and for the test."""

from __future__ import annotations

from dataclasses import dataclass

from torch.utils.data import TensorDataset


@dataclass(frozen=True)
class Split:
    """A data set's training and test part."""

    name: str
    train: TensorDataset
    test: TensorDataset
    classes: tuple[str, ...]
    """The classes' names, by label."""

    @property
    def channels(self) -> int:
        """How many channels an image has."""
        return self.train.tensors[0].shape[1]
