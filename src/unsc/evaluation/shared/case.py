"""A model to be judged, with all that there is to judge it by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, overload

import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.cost import Cost
from unsc.errors import InvalidData, InvalidRequest
from unsc.logits import all_logits
from unsc.methods.shared.former import accepts_former_arguments
from unsc.models import working_copy
from unsc.request import Request

Part: TypeAlias = Literal[
    "forget_train", "retain_train", "forget_validation", "retain_validation", "forget_test", "retain_test"
]
Need: TypeAlias = Literal["original", "retrained", "twin", "references", "shadows", "later", "cost", "retrained_cost"]
"""What a case may have beside the judged model and the data."""

ABOUT_NEEDS: dict[Need, str] = {
    "original": "the model before unlearning (original=...)",
    "retrained": "a model retrained without what was forgotten (retrained=...)",
    "twin": "a second retrained model (twin=...)",
    "references": "reference models trained on random halves of the data, which `unsc compare` trains",
    "shadows": "shadow models, unlearned and retrained, which `unsc compare` makes",
    "later": "later requests by the same method, as `unsc compare` makes them",
    "cost": "the cost of unlearning, which `unsc compare` measures",
    "retrained_cost": "the cost of retraining, which `unsc compare` measures",
}
"""Each in words, and where it comes from."""


@dataclass(frozen=True)
class References:
    """Models trained on random halves of the training data, which attacks compare with."""

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
    """Requests that come after the first one."""

    classes: tuple[int, ...]
    """The classes that are forgotten later, in that order."""
    run: Callable[[nn.Module], nn.Module]
    """Carries them out, one after the other by the judged method, on the model that has forgotten already."""


@accepts_former_arguments
@dataclass(frozen=True)
class Case:
    """An unlearned `model` and the data and models to judge it by. What is left out limits what can be measured."""

    model: nn.Module
    request: Request
    """The classes or records that it was to forget."""
    parts: dict[Part, Batch]
    """The four parts of train and test; the two of validation may be missing."""
    original: nn.Module | None = None
    retrained: nn.Module | None = None
    twin: nn.Module | None = None
    """Another retrained model: the distance between the two is the floor for every distance."""
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

    @property
    def num_classes(self) -> int:
        return self.request.num_classes

    @property
    def classes(self) -> tuple[int, ...]:
        """The forgotten classes, ascending; empty for records."""
        return self.request.classes

    @overload
    def needed(self, need: Literal["original", "retrained", "twin"]) -> nn.Module: ...

    @overload
    def needed(self, need: Literal["references"]) -> References: ...

    @overload
    def needed(self, need: Literal["shadows"]) -> Shadows: ...

    @overload
    def needed(self, need: Literal["later"]) -> Later: ...

    @overload
    def needed(self, need: Literal["cost", "retrained_cost"]) -> Cost: ...

    def needed(self, need: Need) -> object:
        """This part of the case, or an error that says what is missing."""
        found = getattr(self, need)
        if found is None:
            raise InvalidRequest(f"the case has no {need}; give {ABOUT_NEEDS[need]}")
        return found

    def of(self, model: nn.Module) -> Case:
        """The same case with another model, so that both are measured alike."""
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
        """Drop the scores of all other models, so that memory does not grow from case to case."""
        others = [key for key, (model, *_) in self._logits.items() if all(model is not kept for kept in models)]
        for key in others:
            del self._logits[key]

    def labels(self, part: Part) -> Tensor:
        """The true classes of a part, int64 (n,)."""
        return self.parts[part].labels
