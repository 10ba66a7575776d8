"""Whether what was asked for was reached: from what was measured, and from nothing else."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import torch.nn.functional as F
from torch import Tensor

from unsc.looks import Known, Look
from unsc.request import Request
from unsc.targets import Near, Scores, TargetRule

Status: TypeAlias = Literal["forgotten", "not forgotten", "not known", "not verified"]
"""`not known`: the network did not know the class, or the records better than unseen samples, to begin with, so that
nothing can be shown to be forgotten. `not verified`: records are where they should be, but that was guessed."""

FORGOTTEN = 1.0
"""Percent of held-out samples that may still be classified as before."""
_SURE = 2.326
"""One-sided 99 % point of the standard normal distribution."""
_POINTS = 10.0


def was_known(request: Request, ours: Known, retained: Scores) -> bool:
    """Whether a network tells samples of classes to forget, of which it knows `ours`, from others at all.

    It calls them by a class to forget more often than it calls retained samples so, by ten points at least or twice as
    often, and beyond chance (a test of two shares at 1 %), and it is right on retained samples more often than guessing
    would be. Of a hundred classes a network may know one that it is seldom right on. An untrained network is not; one
    that has forgotten already calls neither so. Where no retained sample is at hand, samples to forget are held
    against guessing.
    """
    if not len(retained):
        return _exceeds(ours, Known(ours.n * len(request.classes), ours.n * request.num_classes), by=_POINTS)
    others = _called(retained, request.removed(retained.labels))
    right = _called(retained, F.one_hot(retained.labels, request.num_classes).bool())
    guessed = Known(right.n, right.n * request.num_classes)
    told = ours.percent > FORGOTTEN and _exceeds(ours, others, by=min(_POINTS, others.percent))
    return told and _exceeds(right, guessed, by=0.0)


def _called(scores: Scores, classes: Tensor) -> Known:
    """How many samples are classified as one of the `classes` (n, classes) that are true for them."""
    predicted = scores.logits.argmax(dim=1, keepdim=True)
    return Known(int(classes.gather(1, predicted).sum()), len(scores))


def _exceeds(one: Known, other: Known, *, by: float) -> bool:
    """Whether a share is higher than another, by so many points and beyond chance."""
    pooled = (one.hits + other.hits) / (one.n + other.n)
    spread = 100 * math.sqrt(pooled * (1 - pooled) * (1 / one.n + 1 / other.n))
    return one.percent - other.percent > max(by, _SURE * spread)


def judge(known_before: bool, after: Known) -> Status:
    """The status of a request for classes whose held-out samples are still known to this extent."""
    if not known_before:
        return "not known"
    return "forgotten" if after.percent <= FORGOTTEN else "not forgotten"


def judge_records(rule: TargetRule, before: Look, after: Look, copied: int) -> Status:
    """The status of a request for records that a rule has targets for, `copied` of which have copies that stay."""
    goal = rule.goal("records", stop_mass=1.0)
    if isinstance(goal, Near):
        there, was_there = goal.reached(after), goal.reached(before)
    else:
        there, was_there = after.known.percent <= FORGOTTEN, before.known.percent <= FORGOTTEN
    if copied or not there:
        return "not forgotten"
    if was_there:
        return "not known"
    return "not verified" if rule.guesses else "forgotten"
