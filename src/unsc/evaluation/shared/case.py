"""A model to be judged, with all that there is to judge it by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.cost import Cost
from unsc.errors import InvalidData
from unsc.logits import all_logits
from unsc.models import working_copy

Part: TypeAlias = Literal[
    "forget_train", "retain_train", "forget_validation", "retain_validation", "forget_test", "retain_test"
]


@dataclass(frozen=True)
class References:
    """Models trained on random halves of the training data, for attacks that compare with them."""

    models: tuple[nn.Module, ...]
    saw: dict[Part, Tensor]
    """For `forget_train` and `retain_train`: which model was trained on which sample, bool (models, samples)."""


@dataclass(frozen=True)
class Shadows:
    """What the same method and the same retraining gave with other seeds."""

    unlearned: tuple[nn.Module, ...]
    """Trained on everything, then unlearned by the method that is judged."""
    retrained: tuple[nn.Module, ...]
    """Trained without what was forgotten."""


@dataclass(frozen=True)
class Later:
    """A request that comes after the first one."""

    classes: tuple[int, ...]
    run: Callable[[nn.Module], nn.Module]
    """Carries it out, by the method that is judged, on the model that has forgotten already."""


@dataclass(frozen=True)
class Case:
    """An unlearned `model` and the data and models to judge it by. Whatever is None limits what can be measured."""

    model: nn.Module
    num_classes: int
    classes: tuple[int, ...] | None
    """The forgotten classes, or None for records."""
    parts: dict[Part, Batch]
    """The four parts of train and test; the two of validation may be missing."""
    original: nn.Module | None = None
    retrained: nn.Module | None = None
    twin: nn.Module | None = None
    """Another retrained model: how far two of them differ is the floor for every distance."""
    references: References | None = None
    shadows: Shadows | None = None
    later: Later | None = None
    cost: Cost | None = None
    retrained_cost: Cost | None = None
    seed: int = 0
    _logits: dict[tuple[int, int], tuple[nn.Module, Batch, Tensor]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        for name in ("forget_train", "retain_train", "forget_test", "retain_test"):
            if name not in self.parts or len(self.parts[name]) == 0:
                raise InvalidData(f"{name} has no samples; every part of train and test needs at least one")

    def of(self, model: nn.Module) -> Case:
        """The same case for another model, to measure a reference by the same yardstick."""
        return replace(self, model=model)

    @torch.no_grad()
    def logits(self, part: Part, model: nn.Module | None = None) -> Tensor:
        """The scores (n, classes) of the judged model, or another one, on a part; float64, computed once."""
        chosen = self.model if model is None else model
        key = id(chosen), id(self.parts[part])
        if key not in self._logits:
            working, batch = working_copy(chosen), self.parts[part].for_model(chosen)
            logits = all_logits(working, batch).cpu().double()
            self._logits[key] = chosen, self.parts[part], logits  # kept, so that nothing else can get their ids
        return self._logits[key][2]

    def keep_logits(self, *models: nn.Module | None) -> None:
        """Let go of the scores of all other models, so that cases which share them can follow."""
        others = [key for key, (model, *_) in self._logits.items() if all(model is not kept for kept in models)]
        for key in others:
            del self._logits[key]

    def labels(self, part: Part) -> Tensor:
        """The true classes of a part, int64 (n,)."""
        return self.parts[part].labels
