"""Targets of records, whose classes stay: what a network that was not trained on them would say.

Nobody has that network. Samples that the network at hand was not trained on (validation data) show what its
predictions for such samples look like. The margin of a sample is its label's score minus the best other score: it
says whether, and how surely, the sample is classified as its label.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from unsc.checks import is_number, require
from unsc.errors import InvalidData, InvalidRequest
from unsc.ranks import agreement, place_among, value_at
from unsc.request import Kind
from unsc.targets.classes import Hard, PseudoLabels, Soft
from unsc.targets.goal import Goal, Gone, Near, Unnoticed
from unsc.targets.rule import Evidence, TargetRule, Targets
from unsc.targets.scores import Scores, margins, with_margins

_WRONG_LABELS_KL = 0.5
"""Wrong labels have shaped the predictions for retained samples too: to undo the former is to move the latter."""
_BESIDE = 3
"""They have also harmed what is around them. Samples that stay, learned beside the records, undo it there."""
_NOTHING = 0.1
"""Share of `stop_mass` that may be left of a wrong label."""
_MANY, _APART = 50, 3.0
"""Records that are enough to be ranked by themselves, unless they stand so many standard deviations apart."""
_MIX = 0.3
"""The read-out's share in the scores of classes that are not a record's label."""
_SUREST = 0.95
"""The highest correlation that is believed: it is measured on few samples."""
_BY_ITSELF = 0.7
"""Rank correlation of a network's own margins on records with a retrained network's, without a read-out to tell."""
_OFFSETS = tuple(torch.special.ndtri((torch.arange(9) + 0.5) / 9).tolist())
"""Nine errors of a normal distribution, equally likely."""
FEWEST = 20
"""Validation samples that a distribution can be told from."""


@dataclass(frozen=True)
class Expected(TargetRule):
    """What the prediction for a record should be; the run ends when predictions are near it."""

    serves: ClassVar[tuple[Kind, ...]] = ("records",)
    # Halves of the records have little noise: few long steps, with a memory, get there.
    batches: ClassVar[int] = 2
    most: ClassVar[int | None] = 512
    pace: ClassVar[float] = 4.0

    stop_kl: float = 0.01
    """Mean distance from the targets, in nats, at which records are forgotten in any case."""

    def __post_init__(self) -> None:
        require("stop_kl", self.stop_kl, "a number above 0", is_number(self.stop_kl) and self.stop_kl > 0)

    def goal(self, kind: Kind, stop_mass: float) -> Goal:
        return Near(self.stop_kl)


@dataclass(frozen=True)
class Unseen(Expected):
    """Each record gets the margin that unseen samples have at its place: as a set, records then look unseen.

    A record's place is where it stands among the records, or, if they are few or stand apart, among other training
    samples. It stands there by the network's own margin and by that of a read-out which was fitted without it
    (`unsc.targets.readout`): the read-out says which records the network knows only by heart. Of the classes that are
    not its label a record gets a mixture of both scores. Places are estimates, and so a target is the mean prediction
    over the places that a record may have, as far apart as the read-out and the network are on unseen samples.
    """

    name: ClassVar[Targets] = "unseen"
    does: ClassVar[str] = (
        "was moved to the prediction that fits its place among samples which the network was not trained on"
    )
    limits: ClassVar[str] = (
        "As a set the records look like samples that were never seen. This does not promise the prediction of a "
        "retrained network for each single record, nor its weights."
    )

    reads_layers: ClassVar[bool] = True
    keeps_balance: ClassVar[bool] = True
    moves: ClassVar[float] = 0.5

    spread: float = 0.5
    """How much of the uncertainty of places goes into targets: 0 gives records exactly the margins of unseen samples,
    1 the mean of all that they may have."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require("spread", self.spread, "a share from 0 to 1", is_number(self.spread) and 0 <= self.spread <= 1)

    def goal(self, kind: Kind, stop_mass: float) -> Goal:
        return Unnoticed(self.stop_kl)

    def make(self, evidence: Evidence) -> Tensor:
        if len(evidence.unseen) < FEWEST:
            raise InvalidData(
                f"{len(evidence.unseen)} validation samples; at least {FEWEST} are needed to see what predictions for "
                "unseen samples look like. Give validation=..., or choose targets='lowered', 'away' or 'relabel'"
            )
        place, noise = _places(evidence)
        first = evidence.unseen_margins
        pool = (first if len(first) else margins(evidence.unseen)).to(place)
        scores = _without_memory(evidence)
        total = torch.zeros_like(scores.logits)
        for offset in _OFFSETS:
            wanted = value_at(shifted_place(place, offset, self.spread * noise), pool)
            total += with_margins(scores, wanted.to(total)).softmax(dim=1)
        return total / len(_OFFSETS)


def _without_memory(evidence: Evidence) -> Scores:
    """Records' scores, float32: a mixture of the network's and the read-out's. That of the label will be replaced."""
    logits = evidence.forgotten.logits.float()
    if evidence.readout is not None:
        logits = torch.lerp(_centred(logits), _centred(evidence.readout.forgotten.logits.to(logits)), _MIX)
    return Scores(logits, evidence.forgotten.labels)


def _centred(logits: Tensor) -> Tensor:
    return logits - logits.mean(dim=1, keepdim=True)


def _places(evidence: Evidence) -> tuple[Tensor, float]:
    """Where records stand, 0 to 1, and the standard deviation of an error in that."""
    own = margins(evidence.forgotten).cpu()
    if not len(evidence.trained):  # without other training samples, records can be ranked by themselves alone
        return place_among(own, own), _noise(_BY_ITSELF)
    others = margins(evidence.trained).cpu()
    place, reference = place_among(own, others), place_among(others, others)
    readout, noise = evidence.readout, _noise(_BY_ITSELF)
    if readout is not None:
        judged, beside = margins(readout.forgotten), margins(readout.trained)
        first, second, together = _weights(readout.agreement, agreement(beside, others))
        place = first * place_among(judged, beside) + second * place
        reference = first * place_among(beside, beside) + second * reference
        noise = _noise(together)
    among = place_among(place, reference)
    # Many records that do not stand apart from other samples are ranked by themselves: their number says more about
    # the whole of them than an estimate for each does. The mean of n uniform places varies by 1 / sqrt(12 n).
    apart = abs(among.mean().item() - 0.5) * (12 * len(among)) ** 0.5
    return (place_among(place, place) if len(among) >= _MANY and apart <= _APART else among), noise


def _weights(agreed: float, on_trained: float) -> tuple[float, float, float]:
    """What the read-out's place and the network's own count, and how well both together agree with an unseen place.

    The read-out correlates with what the network says of unseen samples by `agreed`, and with what it says of those it
    was trained on by `on_trained`: little, where it knows everything by heart. That is taken for the correlation of the
    network's own place with the unseen one. Two measures with errors of their own count by signal over noise.
    """
    first, second = (min(max(c, 0.0), _SUREST) for c in (agreed, on_trained))
    signal = sum(c**2 / (1 - c**2) for c in (first, second))
    return first / (1 - first**2), second / (1 - second**2), (signal / (1 + signal)) ** 0.5


def _noise(correlation: float) -> float:
    """What must be added to uniform places to leave them this correlation with what they were."""
    return ((1 / correlation**2 - 1) / 12) ** 0.5


def shifted_place(place: Tensor, offset: float, noise: float) -> Tensor:
    """Places after an error of `offset` standard deviations `noise`: if they were uniform they stay uniform.

    By the distribution function of a uniform plus a normal variable.
    """
    if noise == 0:
        return place

    def ramp(t: Tensor) -> Tensor:
        """The integral of the normal distribution function."""
        return t * torch.special.ndtr(t) + torch.exp(-t.square() / 2) / (2 * torch.pi) ** 0.5

    moved = (place + noise * offset).double()
    return (noise * (ramp(moved / noise) - ramp((moved - 1) / noise))).to(place.dtype)


@dataclass(frozen=True)
class Lowered(Expected):
    """Without validation data: scores divided by a temperature, then the label's own lowered by a shift.

    Both are guesses that the user answers for. The defaults come from one network that knew nine in ten of its training
    samples and two in three others.
    """

    name: ClassVar[Targets] = "lowered"
    does: ClassVar[str] = "was moved to its own prediction with a lower score of its label"
    limits: ClassVar[str] = (
        "There was no validation data, so nobody knows how much lower a network has it that never saw the record: the "
        "temperature and the shift are guesses."
    )
    guesses: ClassVar[bool] = True

    shift: float = 1.5
    """What the label's score is lowered by, after the temperature."""
    temperature: float = 1.3

    def __post_init__(self) -> None:
        super().__post_init__()
        require("shift", self.shift, "a number of at least 0", is_number(self.shift) and self.shift >= 0)
        ok = is_number(self.temperature) and self.temperature >= 1
        require("temperature", self.temperature, "a number of at least 1", ok)

    def make(self, evidence: Evidence) -> Tensor:
        records = evidence.forgotten
        scores = records.logits.float() / self.temperature
        return (scores - self.shift * F.one_hot(records.labels, scores.shape[1])).softmax(dim=1)


@dataclass(frozen=True)
class Away(PseudoLabels):
    """The label that fits best beside a record's own: for poisoned or mislabelled records.

    A layer says so that does not know wrong labels by heart (`unsc.targets.correcting`), or else the network itself.
    """

    name: ClassVar[Targets] = "away"
    serves: ClassVar[tuple[Kind, ...]] = ("records",)
    does: ClassVar[str] = "was moved away from its own label, to what fits it best beside that"
    reads_labels: ClassVar[bool] = True
    beside: ClassVar[int] = _BESIDE
    past: ClassVar[float] = 0.0
    max_kl: ClassVar[float | None] = _WRONG_LABELS_KL

    def goal(self, kind: Kind, stop_mass: float) -> Goal:
        # A wrong label has done harm around its record as well, which is undone only when nothing is left of it.
        return Gone(_NOTHING * stop_mass)

    def make(self, evidence: Evidence) -> Tensor:
        if evidence.label_scores is None:
            return Soft().make(evidence)
        own = evidence.forgotten
        return Hard().make(replace(evidence, forgotten=Scores(evidence.label_scores.to(own.logits), own.labels)))


@dataclass(frozen=True)
class Relabel(Expected):
    """The label that a mislabelled record should have had."""

    name: ClassVar[Targets] = "relabel"
    does: ClassVar[str] = "was moved to the new label that was given for it"
    limits: ClassVar[str] = "This is as right as the new labels are, and does not promise the weights of retraining."

    batches: ClassVar[int] = 16
    most: ClassVar[int | None] = None
    pace: ClassVar[float] = 1.0
    beside: ClassVar[int] = _BESIDE
    past: ClassVar[float] = 0.0
    max_kl: ClassVar[float | None] = _WRONG_LABELS_KL

    stop_kl: float = 0.005

    def make(self, evidence: Evidence) -> Tensor:
        if len(evidence.new_labels) != len(evidence.forgotten):
            raise InvalidRequest("targets='relabel' needs the labels that records should have; give new_labels=[...]")
        return F.one_hot(evidence.new_labels, evidence.removed.shape[1]).float()
