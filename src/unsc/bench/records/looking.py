"""What the cases measure of a network."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager

import torch
from torch import nn

from unsc.batches import Batch
from unsc.bench.records.case import Row
from unsc.errors import NotForgottenWarning
from unsc.evaluation.distance import js_distance
from unsc.logits import accuracy
from unsc.ranks import auc
from unsc.targets import Scores, scores_of


def look(model: nn.Module, records: Batch, test: Batch, beside: nn.Module | None = None) -> Row:
    """Accuracy on test data and records, a loss attack between the two, and how far another network is on records."""
    own, others = scores_of(model, records), scores_of(model, test)
    found = {"test_acc": others.accuracy(), "records_acc": own.accuracy(), "attack": loss_attack(own, others)}
    if beside is not None:
        found["js"] = apart(own, scores_of(beside, records))
    return found


def apart(one: Scores, other: Scores) -> float:
    """The mean Jensen-Shannon divergence of two networks' predictions for the same samples, in bits."""
    return js_distance(one.logits, other.logits).square().mean().item()


def loss_attack(records: Scores, others: Scores) -> float:
    """AUC of taking what has a small loss for a record; 0.5 is chance."""
    return auc(-records.losses().cpu(), -others.losses().cpu())


def worst_class(before: nn.Module, after: nn.Module, test: Batch) -> float:
    """Points of test accuracy that the class lost which lost most."""
    lost = [
        accuracy(before, own) - accuracy(after, own)
        for k in test.labels.unique()
        for own in [test[(test.labels == k).nonzero().flatten()]]
    ]
    return max(lost)


@contextmanager
def unwarned() -> Generator[None, None, None]:
    """Rows say themselves how far a run came."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotForgottenWarning)
        yield


def drawn(size: int, count: int, seed: int) -> list[int]:
    """So many of the first `size` whole numbers, ascending."""
    return sorted(torch.randperm(size, generator=torch.Generator().manual_seed(seed))[:count].tolist())
