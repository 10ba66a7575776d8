"""Samples that are learned beside records with wrong labels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import Subset, TensorDataset

from unsc.beside import with_others
from unsc.datasets import read
from unsc.options import Options
from unsc.request import Request
from unsc.targets import as_rule
from unsc.task import Samples, draw_retained, make_aims

NUMBERS = torch.arange(60.0)[:, None]
LABELS = torch.arange(60) % 3
DATA = TensorDataset(NUMBERS, LABELS)
RECORDS = [4, 7, 30]
STAYS = [i for i in range(60) if i not in RECORDS]


def samples_for(targets: Any, **options: Any) -> Samples:
    """Of a request for the three records, each sample being its own position."""
    forget, retain = Subset(DATA, RECORDS), Subset(DATA, STAYS)
    completed = Options(targets=targets, **options).completed(len(RECORDS))
    fit, check = draw_retained(retain, LABELS[STAYS], per_class=8, label_key=None, seed=0)
    own = read(DATA, RECORDS)
    return with_others(Samples(own, own, fit, check), forget, retain, completed)


@pytest.mark.parametrize("keep", [1 << 20, 1])
def test_others_are_retained_samples_that_nothing_is_checked_on(keep: int) -> None:
    """Whether samples are kept in memory or read when they are needed."""
    samples = samples_for("away", sample_bytes=keep)
    everything = samples.forget_fit[torch.arange(len(samples.forget_fit))].inputs.flatten().tolist()
    records, others = everything[: len(RECORDS)], everything[len(RECORDS) :]
    assert records == RECORDS
    assert len(others) == len(set(others)) == samples.beside == 3 * len(RECORDS)
    checked = {x for batch in samples.retain_check for x in batch.inputs.flatten().tolist()}
    assert set(others) <= set(STAYS) - checked


def test_rules_that_know_no_wrong_labels_learn_records_alone() -> None:
    samples = samples_for("lowered")
    assert samples.beside == 0
    assert samples.forget_fit is samples.forget_check


@pytest.mark.parametrize("targets", ["away", "relabel"])
def test_others_keep_their_labels(targets: Any) -> None:
    samples = samples_for(targets)
    request = Request.for_records(RECORDS, 3, new_labels=[0, 0, 1] if targets == "relabel" else None)
    aims = make_aims(torch.nn.Linear(1, 3), request, samples, as_rule(targets))
    places = torch.arange(len(samples.forget_fit))
    assert torch.equal(aims.fit[places][: len(RECORDS)], aims.check)
    others = places[len(RECORDS) :]
    assert torch.equal(aims.fit[others].argmax(dim=1), samples.forget_fit.labels[others])
    assert (aims.fit[others].amax(dim=1) == 1).all()
