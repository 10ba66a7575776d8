"""What a run reached, for the person who asked: a table of figures, what to try next, and a folder."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unsc.datasets import as_source, read_batches
from unsc.errors import InvalidRequest, listing
from unsc.evaluation.side_by_side import FILE as REPORT_DATA
from unsc.loading.data import LoadedData
from unsc.loading.models import LoadedModel
from unsc.logits import all_logits
from unsc.models import working_copy
from unsc.request import of_classes
from unsc.result import Forgotten
from unsc.storage.files import new_folder, replaced_folder, write_json, writing

TRANSFORMERS = "model"
"""The folder in a saved result that `from_pretrained` loads."""
_PARTS = {"model.safetensors", "metrics.json", "config.json", TRANSFORMERS, REPORT_DATA, "report.html"}


@dataclass(frozen=True)
class Scores:
    """Accuracy in percent on validation data; None for a part that has no samples there."""

    forget_acc: float | None
    """Samples of the classes to forget; None for records."""
    retain_acc: float | None
    worst_class: int | None
    """Of those that stay."""
    worst_acc: float | None
    samples: int


@torch.no_grad()
def scores_of(model: LoadedModel, data: LoadedData, forgotten: tuple[int, ...]) -> Scores:
    """Of a model, where `forgotten` classes go."""
    network = working_copy(model.model)
    source = as_source(data.dataset, model.model, collate_fn=data.collate)
    hits = torch.cat(
        [
            (all_logits(network, batch).argmax(dim=1) == batch.labels).cpu()
            for batch in (one.for_model(network) for one in read_batches(source, torch.arange(len(data)), size=256))
        ]
    )
    goes = of_classes(data.labels, forgotten)
    by_class = {k: _percent(hits[data.labels == k]) for k in data.labels[~goes].unique().tolist()}
    worst = min(by_class, key=lambda k: by_class[k] or 0.0, default=None)
    return Scores(
        _percent(hits[goes]), _percent(hits[~goes]), worst, None if worst is None else by_class[worst], len(data)
    )


def _percent(hits: Tensor) -> float | None:
    return 100 * hits.float().mean().item() if len(hits) else None


@dataclass(frozen=True)
class Line:
    """One figure, before and after, as text."""

    what: str
    before: str
    after: str


@dataclass(frozen=True, repr=False)
class Reached:
    """A model that was asked to forget, and what was measured of it."""

    result: Forgotten
    model: LoadedModel
    """The one that it was before."""
    class_names: tuple[str, ...] | None
    before: Scores | None
    """On validation data, if there is any."""
    after: Scores | None
    shown: dict[str, Any]
    """What a report shows (`evaluation.side_by_side`)."""

    def __repr__(self) -> str:
        return f"<Reached: {self.result.metrics.promise}>"

    @property
    def ok(self) -> bool:
        """Whether what was asked for was reached, as measured."""
        return self.result.ok

    @property
    def title(self) -> str:
        """What was asked for, and whether it was reached."""
        asked = self.result.request
        what = listing(map(self._called, asked.classes)) if asked.classes else f"{len(asked.records or ())} records"
        return f"{what}: {self.result.metrics.status}"

    @property
    def lines(self) -> list[Line]:
        """What was measured, in the order of a table."""
        m = self.result.metrics
        if m.records is None:
            found = [
                Line("held-out samples of what goes, still known (%)", _text(m.forget_acc_before), _text(m.forget_acc))
            ]
        else:
            found = [Line("records classified as their label (%)", _text(m.records.acc_before), _text(m.records.acc))]
            found.append(
                Line(
                    "records' distance from what it should be (nats)",
                    f"{m.records.distance_before:.4f}",
                    f"{m.records.distance:.4f}",
                )
            )
            if (beside := m.records.validation) is not None:
                told = f"{beside.attack_auc_before:.3f}", f"{beside.attack_auc:.3f}"
                found.append(Line("attack that tells records from unseen samples (AUC)", *told))
        if self.before is not None and self.after is not None:
            found += self._on_validation(self.before, self.after)
        found.append(Line("change of retained predictions (KL, nats)", "0", f"{m.retained_kl:.2g}"))
        found.append(Line("largest drift of a layer, retained rows", "0", f"{m.drift_max:.2g}"))
        return found

    def _on_validation(self, before: Scores, after: Scores) -> list[Line]:
        found = [Line("validation accuracy, what stays (%)", _text(before.retain_acc), _text(after.retain_acc))]
        if before.forget_acc is not None:
            told = _text(before.forget_acc), _text(after.forget_acc)
            found.insert(0, Line("validation accuracy, what goes (%)", *told))
        if before.worst_class is not None and after.worst_class is not None:
            worst = f"{_text(after.worst_acc)} ({self._called(after.worst_class)})"
            first = f"{_text(before.worst_acc)} ({self._called(before.worst_class)})"
            found.append(Line("validation accuracy, worst class that stays (%)", first, worst))
        return found

    @property
    def advice(self) -> tuple[str, ...]:
        """What to try, if it was not reached."""
        m, options = self.result.metrics, self.result.options
        if m.status == "forgotten":
            return ()
        if m.status == "not known" and m.records is not None:
            return ("check that these are the records that were meant: there is nothing known by heart to forget",)
        if m.status == "not known":
            return (
                "check that the weights, the data and the numbers of its classes belong together",
                "check that samples are prepared as in training (--transform)",
            )
        if m.status == "not verified":
            return ("give data that the model was not trained on (--validation)",)
        if m.records is not None and m.records.copies.copied():
            return ("forget the copies too: --options copies=include",)
        if m.stopped == "kl" or m.stopped == "undone":
            return (f"allow more change of what stays: --options max_kl={4 * options.max_kl:g}", "give more samples")
        if m.stopped == "nan":
            return ("take the budgeted step, or a smaller learning rate: --options step=budgeted",)
        return (f"allow more passes: --options max_passes={4 * options.max_passes}",)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        m = self.result.metrics
        beside = None
        if self.before is not None and self.after is not None:
            beside = {"before": asdict(self.before), "after": asdict(self.after)}
        return {
            "ok": self.ok,
            "request": m.request,
            "classes": [self._called(k) for k in self.result.request.classes],
            "records": len(self.result.request.records or ()),
            "status": m.status,
            "promise": m.promise,
            "advice": list(self.advice),
            "forget_acc_before": m.forget_acc_before,
            "forget_acc": m.forget_acc,
            "retained_kl": m.retained_kl,
            "drift_max": m.drift_max,
            "steps": m.steps,
            "seconds": m.seconds,
            "validation": beside,
        }

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write weights, config and metrics into a folder, all or nothing; `Forgotten.load` reads them back.

        A model of `transformers` is beside them as a folder `model` that `from_pretrained` loads. With `overwrite` a
        result that was saved there is replaced; a folder that holds anything else is not touched.
        """
        folder = Path(folder)
        with writing(folder):
            if overwrite:
                check_replaceable(folder)
            with replaced_folder(folder) if overwrite else new_folder(folder) as part:
                self.result.save(part)
                write_json(part / REPORT_DATA, self.shown)
                if self.model.takes is not None:  # a folder of transformers
                    self.model.save(part / TRANSFORMERS, self.result.model)
        return folder

    def _called(self, number: int) -> str:
        names = self.class_names
        return names[number] if names is not None and number < len(names) else str(number)


def check_replaceable(folder: Path) -> None:
    """Refuse to replace what is no result."""
    if folder.exists() and not folder.is_dir():
        raise InvalidRequest(f"{folder} is a file; name a folder")
    others = sorted({path.name for path in folder.iterdir()} - _PARTS) if folder.is_dir() else []
    if others:
        raise InvalidRequest(f"{folder} holds {listing(others)}, which is no part of a result; name another folder")


def _text(percent: float | None) -> str:
    return "" if percent is None else f"{percent:.1f}"
