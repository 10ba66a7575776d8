"""What an unlearning run gives back."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from unsc.coverage import Coverage
from unsc.dropped import DroppedOutputs
from unsc.errors import InvalidData, InvalidRequest, listing
from unsc.history import Past, gone_by
from unsc.loop import Check, Stopped
from unsc.measures import RecordMetrics
from unsc.options import CompletedOptions, Options
from unsc.request import Request
from unsc.steps import Guide, Spent
from unsc.steps.held import LayerFigures
from unsc.storage.files import (
    load_tensors,
    new_folder,
    read_json,
    replaced_folder,
    save_tensors,
    write_json,
    writing,
)
from unsc.storage.versions import versions
from unsc.verdict import Status
from unsc.wrappers import unwrapped

_WEIGHTS, _METRICS, _CONFIG = "model.safetensors", "metrics.json", "config.json"
"""The files of a saved result."""


@dataclass(frozen=True, repr=False)
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
    """Change of retained predictions, in nats, as predicted of the whole way: by derivatives at the original, to second
    order, all layers together; by a store's guide where no retained sample is at hand; 0 for the paper's step, by its
    Theorem 1. A step's own prediction and cost are in `spent`."""
    retained_kl: float
    """The same as measured on held-out retained samples; where none was at hand, as predicted."""
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
    records: RecordMetrics | None = None
    """What was measured on records; None for classes."""
    gone_mass: float | None = None
    """Mean probability, 0 to 1, of the classes that earlier requests made the network forget, on all samples to check,
    retained and forgotten; None if there are none."""
    gone_mass_before: float | None = None
    """The same before this request."""
    settled_mass: float | None = None
    """What `forget_mass` is once the forgotten outputs are where a network has them that never saw the classes; None if
    they were left where forgetting put them, or dropped. What was reached is judged before that."""
    spent: list[Spent] = field(default_factory=list)
    """What each step cost retained predictions; empty if the step rule does not predict it."""
    layers: dict[str, LayerFigures] = field(default_factory=dict)
    """What is known of each layer that could be edited."""

    def __repr__(self) -> str:
        return (
            f"<RunMetrics: {self.status}, forget_acc {self.forget_acc:.1f} % (before {self.forget_acc_before:.1f} %), "
            f"retained_kl {self.retained_kl:.4f} nats, {self.steps} steps, {self.seconds:.1f} s>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, to be saved as JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunMetrics:
        """What `to_dict` gave, beside which there may be other values; fields with a default came later than others."""
        late = {f.name for f in fields(cls) if (f.default, f.default_factory) != (MISSING, MISSING)} - values.keys()
        own: dict[str, Any] = {f.name: values[f.name] for f in fields(cls) if f.name not in late}
        own["history"] = [Check(**check) for check in own["history"]]
        own["spent"] = [Spent(**one) for one in own.get("spent", ())]
        own["layers"] = {name: LayerFigures(**one) for name, one in own.get("layers", {}).items()}
        own["edited"] = Coverage(**own["edited"])
        records = own.get("records")
        own["records"] = None if records is None else RecordMetrics.from_dict(records)
        return cls(**own)

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
    history: tuple[Past, ...] = ()
    """The requests that the network was made to forget by, as far as they are known, this one last."""
    dropped: DroppedOutputs | None = None
    """What is left of the head, if outputs of forgotten classes were dropped."""

    @property
    def gone(self) -> tuple[int, ...]:
        """The classes that the model has outputs for and has forgotten, ascending: those of earlier requests, and of
        this one if it reached what was asked for."""
        return () if self.dropped else tuple(sorted({*self.request.gone, *gone_by(self.history)}))

    @property
    def label_map(self) -> dict[int, int] | None:
        """The label that the model now has for each label before this request; None if they are the same."""
        return self.dropped.label_map if self.dropped else None

    def in_former_labels(self) -> nn.Module:
        """The model as it speaks in the labels before this request: those that were dropped are never predicted."""
        return self.dropped.restored(self.model) if self.dropped else self.model

    @property
    def ok(self) -> bool:
        """Whether what was asked for was reached, as measured."""
        return self.metrics.status == "forgotten"

    def __repr__(self) -> str:
        m = self.metrics
        return f"<Forgotten {m.request}: {m.status}. {m.note} Retained KL {m.retained_kl:.4f} nats, {m.passes} passes.>"

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write `model.safetensors`, `metrics.json` and `config.json` into a new folder, all or nothing.

        With `overwrite`, a result that was saved there is replaced; a folder that holds anything else is not touched.
        Names of weights are those of the network itself, without its wrappers.
        """
        folder = Path(folder)
        config = {
            "options": self.options.to_dict(),
            "classes": self.request.classes or None,
            "indices": self.request.records,
            "new_labels": self.request.new_labels or None,
            "num_classes": self.request.num_classes,
            "gone": self.request.gone,
            "history": [past.to_dict() for past in self.history],
            "dropped_outputs": self.dropped.to_dict() if self.dropped else None,
            "label_map": self.label_map,
            "versions": versions(),
        }
        with writing(folder):
            if overwrite:
                _check_replaceable(folder)
            with replaced_folder(folder) if overwrite else new_folder(folder) as part:
                weights = unwrapped(self.model).inner.state_dict()
                save_tensors(part / _WEIGHTS, weights, {"kind": "model"} | config)
                write_json(part / _METRICS, self.metrics.to_dict() | {"frozen": self.frozen})
                write_json(part / _CONFIG, config)
        return folder

    @classmethod
    def load(cls, folder: str | Path, model: nn.Module) -> Forgotten:
        """A result that was saved: its weights in a copy of `model`, its metrics, options and request.

        `model` is a network of the same kind, with whatever weights, and with all outputs or without those that were
        dropped. The guide is not part of a saved result.
        """
        folder = Path(folder)
        if not folder.is_dir():
            raise InvalidRequest(f"there is no folder {folder}; give one that a result was saved in")
        weights, _ = load_tensors(folder / _WEIGHTS)
        metrics, config = read_json(folder / _METRICS), read_json(folder / _CONFIG)
        try:
            options = Options.from_keywords(_with_tuples(config["options"])).completed(0)
            classes, records, gone = config["classes"], config["indices"], config["gone"]
            positions = None if records is None else tuple(records)
            given = tuple(config["new_labels"] or ())
            request = Request(config["num_classes"], tuple(classes or ()), positions, tuple(gone), given)
            measured = RunMetrics.from_dict(metrics)
            history = tuple(Past.from_dict(past) for past in config["history"])
            left = config.get("dropped_outputs")
            dropped = None if left is None else DroppedOutputs.from_dict(left)
            loaded = _with_weights(dropped.drop(model) if dropped else model, weights, folder)
            return cls(loaded, measured, metrics["frozen"], options, request, NotSaved(), history, dropped)
        except KeyError as e:
            raise InvalidData(f"{folder} has no {e}; it was saved by another version of unsc, or is damaged") from e


@dataclass(frozen=True)
class NotSaved:
    """In the place of the guide of a result that was read back: a guide is saved by itself."""

    def layer_names(self) -> tuple[str, ...]:
        return ()

    def check(self, request: Request, labels: Tensor) -> None:
        raise InvalidRequest("a saved result has no guide; make one, or save the guide of a run by itself")


def _check_replaceable(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InvalidRequest(f"{folder} is a file; name a folder")
    known = {_WEIGHTS, _METRICS, _CONFIG, "report.html"}
    others = sorted({p.name for p in folder.iterdir()} - known) if folder.exists() else []
    if others:
        raise InvalidRequest(f"{folder} holds {listing(others)}, which is no part of a result; name another folder")


def _with_tuples(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as they were before they were JSON, which has no tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}


def _with_weights(model: nn.Module, weights: Mapping[str, Tensor], folder: Path) -> nn.Module:
    """A copy of `model`, in its own wrappers, with these weights."""
    inner, rewrap = unwrapped(model)
    result = copy.deepcopy(inner)
    try:
        result.load_state_dict(weights)
    except RuntimeError as e:  # torch names each weight that is missing, that it does not know, or of another shape
        raise InvalidData(f"{folder} does not fit this model; give one of the network that forgot. {e}") from e
    return rewrap(result)
