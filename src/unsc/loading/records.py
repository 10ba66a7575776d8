"""What every kind of data file comes down to: raw samples with labels and ids, and a data set for a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch.utils.data import Dataset

from unsc.loading.models import Kind, Transform


class Content(Protocol):
    """The samples of a source, by position, each in two forms."""

    def raw(self, i: int) -> Any:
        """What a transform takes: a PIL image, a text, an array."""
        ...

    def stored(self, i: int) -> bytes:
        """The sample's own bytes as they lie in the source, without its label and its id."""
        ...


@dataclass(frozen=True)
class Records:
    """The samples of a source as they lie there."""

    kind: Kind
    content: Content
    labels: Sequence[str | int]
    """Each sample's class, by name or by number."""
    ids: Sequence[str] | None
    """None where the source has none."""
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What else it says of each sample."""
    names: tuple[str, ...] | None = None
    """What it calls its classes, those without samples too, in the order of their numbers; None where it does not."""

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Prepared(Dataset[Any]):
    """Samples as the model takes them: `(x, y)`, or dicts with the label beside what the transform gives."""

    content: Content
    transform: Transform
    targets: list[int]
    """Each sample's class, where those who only need labels find them."""
    classes: tuple[str, ...] | None

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, i: int) -> Any:
        made = self.transform(self.content.raw(i))
        if isinstance(made, Mapping):
            return {**made, "labels": self.targets[i]}
        return made, self.targets[i]
