"""What an unlearning run gives back."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from torch import nn

from unsc.coverage import Coverage
from unsc.errors import listing
from unsc.loop import Check, Stopped
from unsc.options import CompletedOptions
from unsc.request import Request
from unsc.steps import Guide
from unsc.storage.files import new_folder, save_tensors, write_json
from unsc.storage.versions import versions
from unsc.verdict import Known, Status


@dataclass(frozen=True)
class RunMetrics:
    """What was measured on the final weights; accuracies in percent, KL in nats, time in seconds."""

    request: str
    """`classes` or `records`."""
    status: Status
    """Whether what was asked for was reached."""
    promise: str
    """What the result can be said to do, in words for the person who asked."""
    stopped: Stopped
    note: str
    """Why the run stopped, in words."""
    passes: float
    """Over the forgotten samples."""
    steps: int
    steps_taken_back: int
    """Tries that moved retained predictions too far and were repeated with a shorter step."""
    forget_acc: float
    """Held-out samples of forgotten classes, or records, that are still classified as before."""
    forget_acc_before: float
    """The same in the original network."""
    forget_mass: float
    """Mean probability, 0 to 1, that the network still gives their removed classes."""
    predicted_kl: float
    """Change of retained predictions as the guide predicts it; 0 for the paper's step, by its Theorem 1."""
    retained_kl: float
    """The same as measured on held-out retained samples."""
    temperature: float
    """What predictions were softened by for both; 1 unless the network is almost certain of everything."""
    drift: dict[str, float]
    """Relative change of each layer's outputs on retained rows (Theorem 1, measured)."""
    drift_max: float
    edited: Coverage
    """How much of the network moved: of its parameters, and of its depth."""
    history: list[Check]
    """What was measured on the way."""
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, to be saved as JSON."""
        return asdict(self)

    def __getitem__(self, name: str) -> Any:
        warnings.warn(
            f"metrics[{name!r}] is deprecated; use metrics.{name}, or metrics.to_dict()",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.to_dict()[name]

    def keys(self) -> list[str]:
        return [f.name for f in fields(self)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())


@dataclass(frozen=True, repr=False)
class Forgotten:
    """A model that has forgotten, and what was measured on the way."""

    model: nn.Module
    """A new module, in the mode and precision of the one that was passed in."""
    metrics: RunMetrics
    frozen: dict[str, str]
    """Names of the parameters that were not edited, with the reason."""
    options: CompletedOptions
    request: Request
    guide: Guide
    """The null space or retained curvature that steps were confined by; it can be saved and used again."""

    @property
    def ok(self) -> bool:
        """Whether what was asked for was reached, as measured."""
        return self.metrics.status == "forgotten"

    def __repr__(self) -> str:
        m = self.metrics
        return f"<Forgotten {m.request}: {m.status}. {m.note} Retained KL {m.retained_kl:.4f} nats, {m.passes} passes.>"

    def save(self, folder: str | Path) -> Path:
        """Write `model.safetensors`, `metrics.json` and `config.json` into a new folder, all or nothing."""
        folder = Path(folder)
        config = {
            "options": self.options.to_dict(),
            "classes": self.request.classes or None,
            "indices": self.request.records,
            "versions": versions(),
        }
        with new_folder(folder) as part:
            save_tensors(part / "model.safetensors", self.model.state_dict(), {"kind": "model"} | config)
            write_json(part / "metrics.json", self.metrics.to_dict() | {"frozen": self.frozen})
            write_json(part / "config.json", config)
        return folder


NOTES: dict[Stopped, str] = {
    "forgotten": "The stopping rule was met.",
    "passes": "The cap on passes was reached; the state that had forgotten most was kept.",
    "kl": "Retained predictions moved beyond max_kl; the state before that which had forgotten most was restored.",
    "nan": "The model's outputs became NaN or Inf; the state before that which had forgotten most was restored.",
}
_REMEDIES: dict[Stopped, str] = {
    "forgotten": "allow more passes (max_passes) or a lower stop_mass",
    "passes": "allow more passes (max_passes), or a larger budget",
    "kl": "allow more change of retained predictions (max_kl), or give more samples",
    "nan": "take a smaller learning rate, or the budgeted step",
}


def promise(request: Request, step: str, status: Status, stopped: Stopped, before: Known, after: Known) -> str:
    """What the result can be said to do, from what was measured, in words for the person who asked."""
    if request.kind == "records":
        return _promise_of_records(step)
    names = ("class " if len(request.classes) == 1 else "classes ") + listing(request.classes)
    share = f"{after.hits} of {after.n} held-out samples"
    if status == "not known":
        return (
            f"The network did not know {names} to begin with: it classified {before.hits} of {before.n} of their held-"
            "out samples so, no more often than it does other samples. Nothing can be shown to be forgotten."
        )
    if status == "not forgotten":
        return (
            f"Not forgotten: {share} of {names} are still classified as before ({before.hits} in the original "
            "network). "
            f"Do not release this model as one that has forgotten; {_REMEDIES[stopped]}."
        )
    return (
        f"Forgotten: {share} of {names} are still classified as before ({before.hits} in the original network); the "
        "others are classified as the retained classes that the original network found most similar, and predictions "
        "on retained data stay within the measured KL. This does not promise weights as if the classes had never been "
        "seen."
    )


def _promise_of_records(step: str) -> str:
    kept = (
        "the other classes are protected by their null space; the rest of a record's own class is not"
        if step == "paper"
        else "predictions on the retained data, its own class included, stay within the measured KL"
    )
    return (
        f"Records of classes that stay were moved away from their own labels as far as possible; {kept}. A network "
        "trained without these records may still classify most of them correctly, so this can forget more than "
        "retraining would."
    )
