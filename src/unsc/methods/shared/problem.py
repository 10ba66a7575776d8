"""A forgetting problem: a network, a request, the data that goes and stays, and a recipe to train by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from unsc.errors import InvalidRequest
from unsc.methods.shared.former import accepts_former_arguments
from unsc.models import working_copy
from unsc.progress import Progress, quiet
from unsc.request import Request

Recipe: TypeAlias = Callable[[Dataset, int], nn.Module]
"""Trains a new network on a data set with a seed, just as the original was trained."""
Need: TypeAlias = Literal["forget", "retain", "recipe", "validation"]
"""The parts of a problem that a method may or may not need."""


class _NoData(Dataset[Any]):
    """Stands for a data set that is not given."""

    def __len__(self) -> int:
        return 0

    def __getitem__(self, index: int) -> NoReturn:
        raise InvalidRequest(
            "there are no samples; give the problem forget=... and retain=..., two data sets, and "
            "validation=... where a method asks for it"
        )

    def __repr__(self) -> str:
        return "NO_DATA"


NO_DATA: Dataset[Any] = _NoData()
"""Stands for a part of the data that is not given."""


def no_recipe(dataset: Dataset, seed: int) -> NoReturn:
    """Stands for a recipe that is not given."""
    raise InvalidRequest(
        "there is no recipe to train a new network by; give the problem recipe=..., a function of a data set and a "
        "seed that returns a trained network"
    )


@accepts_former_arguments
@dataclass(frozen=True)
class Problem:
    """A trained network, what is to be forgotten and what stays.

    Data sets are map-style and give the samples as the network sees them at test time. Whatever a method does not
    name in its `needs` may be left out.
    """

    model: nn.Module
    """The trained network. Methods work on a copy: `problem.copy()`."""
    request: Request
    """The classes or records to forget."""
    forget: Dataset = NO_DATA
    """Training samples to forget."""
    retain: Dataset = NO_DATA
    """Training samples that stay."""
    recipe: Recipe = no_recipe
    seed: int = 0
    progress: Progress = quiet
    validation: Dataset = NO_DATA
    """Samples like the training samples that the network was not trained on: what unseen samples look like to it."""

    def copy(self) -> nn.Module:
        """The network to edit: a copy in evaluation mode, so that statistics of batch norm stay as they are."""
        return working_copy(self.model)

    def gives(self, need: Need) -> bool:
        """Whether this part of the problem is there; a data set without samples is not."""
        if need == "recipe":
            return self.recipe is not no_recipe
        return len(getattr(self, need)) > 0

    @property
    def num_classes(self) -> int:
        return self.request.num_classes

    @property
    def classes(self) -> tuple[int, ...]:
        """The classes to forget, ascending; empty for records."""
        return self.request.classes

    @property
    def kept(self) -> Tensor:
        """True for the classes that stay, bool (num_classes,); for records all of them do."""
        return self.request.kept

    def removed(self, labels: Tensor) -> Tensor:
        """Which classes forgotten samples with these `labels` (n,) may no longer be given, bool (n, num_classes)."""
        return self.request.removed(labels)

    def generator(self) -> torch.Generator:
        """Random numbers that depend on the seed alone."""
        return torch.Generator().manual_seed(self.seed)
