"""Images as tensors and positions in them, so that a subset costs no copy."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset, TensorDataset

from unsc.datasets import check_map_style, read, size_of
from unsc.errors import InvalidData


@dataclass(frozen=True)
class Images:
    """Images (m, ...), labels (m,), and the positions of those that belong, int64 (n,)."""

    images: Tensor
    labels: Tensor
    chosen: Tensor

    def __len__(self) -> int:
        return len(self.chosen)

    def at(self, positions: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
        """The samples at `positions` (k,), on `device`."""
        indices = self.chosen[positions]
        return self.images[indices].to(device), self.labels[indices].to(device)

    def describe(self) -> str:
        """Their number, shape and a digest of all labels and up to 1,000 images: tells one data set from another."""
        digest = hashlib.sha256(self.labels[self.chosen].cpu().numpy().tobytes())
        few = self.chosen[torch.linspace(0, len(self) - 1, min(len(self), 1000)).long()]
        digest.update(self.images[few].cpu().contiguous().numpy().tobytes())
        shape = "x".join(map(str, self.images.shape[1:]))
        return f"{len(self):,} samples of {shape}, digest {digest.hexdigest()[:12]}"


def images_of(dataset: Dataset) -> Images:
    """A `TensorDataset` or a subset of one as it is; any other data set of (image, label) is read once."""
    check_map_style(dataset)
    size = size_of(dataset)
    if size == 0:
        raise InvalidData("the data set to train on is empty; give one with samples")
    if isinstance(dataset, TensorDataset) and len(dataset.tensors) == 2:
        images, labels = dataset.tensors
        return Images(images, labels, torch.arange(size))
    if type(dataset) is Subset:
        whole = images_of(dataset.dataset)
        return Images(whole.images, whole.labels, whole.chosen[torch.as_tensor(dataset.indices)])
    batch = read(dataset, range(size))
    if not torch.is_tensor(batch.inputs):
        raise InvalidData(f"a sample's input is a {type(batch.inputs).__name__}; training takes (image, label) pairs")
    return Images(batch.inputs, batch.labels, torch.arange(size))
