"""What the type checker cannot know of a general data set."""

from __future__ import annotations

from torch import Tensor
from torch.utils.data import Dataset, TensorDataset


def tensors_of(dataset: Dataset) -> tuple[Tensor, ...]:
    """The tensors themselves of a data set of tensors, to be looked at or changed in place."""
    assert isinstance(dataset, TensorDataset)
    return dataset.tensors
