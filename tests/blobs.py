"""Four clouds of points, and networks that learn to tell them apart in a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

CLASSES = 4
M = TypeVar("M", bound=nn.Module)


def blobs(each: int = 40, classes: int = CLASSES) -> TensorDataset:
    """`each` points around every one of `classes` corners, one class after another."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(classes).repeat_interleave(each)
    points = 3 * F.one_hot(labels, 6).float() + 0.5 * torch.randn(len(labels), 6, generator=generator)
    return TensorDataset(points, labels)


class Counted(Dataset):
    """Points that are read one by one; how often is counted. Other processes can import it."""

    def __init__(self, data: TensorDataset) -> None:
        self.data, self.reads = data, 0
        self.targets = data.tensors[1].tolist()

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        self.reads += 1
        return self.data.tensors[0][i].clone(), self.targets[i]


def network(outputs: int = CLASSES) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, outputs))


def samples(data: TensorDataset) -> list[tuple[Tensor, ...]]:
    """The same points as a list."""
    return [data[i] for i in range(len(data))]


def learned(
    model: M,
    data: TensorDataset,
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
    of_output: Callable[..., Tensor] = lambda output: output,
    steps: int = 60,
) -> M:
    """`model` after some steps on all of the data, in evaluation mode."""
    x, y = data.tensors
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(of_output(model(x)), y).backward()
        optimizer.step()
    optimizer.zero_grad()
    return model.eval()
