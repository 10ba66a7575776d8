"""What every method is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from unsc.models import working_copy
from unsc.progress import Progress, quiet
from unsc.targets import removed_classes

Recipe: TypeAlias = Callable[[Dataset, int], nn.Module]
"""Trains a new network on a data set with a seed, just as the original was trained."""


@dataclass(frozen=True)
class Problem:
    """A trained network, what is to be forgotten and what stays.

    Data sets are map-style and give the samples as the network sees them at test time. What a method does not
    name in its `needs` may be None.
    """

    model: nn.Module
    """The trained network. Methods work on a copy: `problem.copy()`."""
    num_classes: int
    classes: tuple[int, ...] | None
    """The classes to forget, or None for records of classes that stay."""
    forget: Dataset | None = None
    """Training samples to forget."""
    retain: Dataset | None = None
    """Training samples that stay."""
    recipe: Recipe | None = None
    seed: int = 0
    progress: Progress = quiet

    def copy(self) -> nn.Module:
        """The network to edit: a copy in evaluation mode, so that statistics of batch norm stay as they are."""
        return working_copy(self.model)

    @property
    def kept(self) -> Tensor:
        """The classes that stay, int64 (k,); for records all of them."""
        return torch.tensor([k for k in range(self.num_classes) if k not in (self.classes or ())])

    def removed(self, labels: Tensor) -> Tensor:
        """Which classes forgotten samples with these `labels` (n,) may no longer be given, bool (n, classes)."""
        return removed_classes(labels, self.num_classes, self.classes)

    def generator(self) -> torch.Generator:
        """Random numbers that depend on the seed alone."""
        return torch.Generator().manual_seed(self.seed)
