"""Images that nobody has to fetch: noise around a pattern of each class, made when they are asked for."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.data import Dataset


class Synthetic(Dataset[tuple[Tensor, int]]):
    """`size` images (channels, side, side) of so many classes, in turn. Nothing is kept, so that memory is the user's.

    The classes' patterns differ little: what costs time and memory does not depend on what the images show.
    """

    def __init__(self, size: int, classes: int, side: int, *, channels: int = 3) -> None:
        self.size, self.classes, self.side, self.channels = size, classes, side, channels
        self.targets = torch.arange(size) % classes

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        label = int(self.targets[i])
        shape = self.channels, self.side, self.side
        noise = torch.randn(shape, generator=torch.Generator().manual_seed(i))
        pattern = torch.randn((self.channels, 1, 1), generator=torch.Generator().manual_seed(10**9 + label))
        return noise + pattern, label
