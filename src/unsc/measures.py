"""What a run is measured by on records, and whether it was worth what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from unsc.balance import Reached
from unsc.batches import join
from unsc.duplicates import Copies
from unsc.logits import accuracy
from unsc.ranks import auc
from unsc.targets import Scores
from unsc.task import Task

_HARM_ACC, _HARM_KL = 0.5, 0.01
"""What a run costs is felt from so many points of held-out accuracy, or nats of retained KL."""


@dataclass(frozen=True)
class ValidationMetrics:
    """Records beside samples that the network was not trained on: accuracies in percent, AUC from 0 to 1."""

    samples: int
    overlapping: int
    """Samples that were left out, since the network was trained on them."""
    acc: float
    acc_before: float
    """By the original network."""
    attack_auc: float
    """How well the loss tells the records from samples of the same classes: 0.5 if not at all."""
    attack_auc_before: float


@dataclass(frozen=True)
class RecordMetrics:
    """What was measured on records; accuracies in percent, distances in nats."""

    targets: str
    """The rule that says what their predictions should be."""
    distance: float
    """Mean KL of their predictions from that."""
    distance_before: float
    acc: float
    """Records that are classified as their label in the data."""
    acc_before: float
    copies: Copies
    validation: ValidationMetrics | None
    """None without validation data."""
    distance_error: float | None = None
    """Standard error of `distance`; None for a single record."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RecordMetrics:
        """What was made of it by `dataclasses.asdict` and JSON."""
        beside = values["validation"]
        own: dict[str, Any] = {
            "copies": Copies.from_dict(values["copies"]),
            "validation": None if beside is None else ValidationMetrics(**beside),
        }
        return cls(**{**values, **own})


def worth_it(task: Task, edited: nn.Module, reached: Scores, least_gain: float) -> bool:
    """Whether a network that says `reached` of the samples to check went at least that share of the way to its goal,
    or else costs held-out samples nothing. Where there are none, that cannot be shown."""
    goal, before, after = task.aims.goal, task.look(task.aims.scores), task.look(reached)
    first, last = (goal.left(look).mean().item() for look in (before, after))
    if goal.reached(after) or first - last >= least_gain * first:
        return True
    at_hand = task.samples.validation or task.watch.batches
    if not at_hand:
        return False
    held_out = join(at_hand)
    lost = accuracy(task.original, held_out) - accuracy(edited, held_out)
    return lost <= _HARM_ACC and task.watch.kl(edited) <= _HARM_KL


def measure_records(task: Task, reached: Reached, copies: Copies, *, overlapping: int) -> RecordMetrics:
    """What a final network says of records, beside what the original said and beside validation samples."""
    before, after = task.look(task.aims.scores), task.look(reached.records)
    return RecordMetrics(
        targets=task.aims.rule.name,
        distance=after.distance,
        distance_before=before.distance,
        acc=after.known.percent,
        acc_before=before.known.percent,
        copies=copies,
        validation=_beside_unseen(task, reached, overlapping) if task.samples.validation else None,
        distance_error=after.distances.std().item() / len(after) ** 0.5 if len(after) > 1 else None,
    )


def _beside_unseen(task: Task, reached: Reached, overlapping: int) -> ValidationMetrics:
    unseen = task.aims.unseen, reached.unseen
    own = task.aims.scores, reached.records
    acc_before, acc = (scores.accuracy() for scores in unseen)
    attack_before, attack = (_attack(*pair) for pair in zip(own, unseen, strict=True))
    return ValidationMetrics(len(unseen[0]), overlapping, acc, acc_before, attack, attack_before)


def _attack(records: Scores, unseen: Scores) -> float:
    """Against samples of the records' classes, or of all if there is none of those."""
    alike = torch.isin(unseen.labels, records.labels.to(unseen.labels.device))
    losses = unseen.losses()
    return auc(-records.losses().cpu(), -(losses[alike] if alike.any() else losses).cpu())
