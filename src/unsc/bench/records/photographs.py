"""The scenario `records`: 300 of 6,000 photographs that a small ResNet knows by heart, beside retrained networks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

from unsc.api import forget
from unsc.batches import Batch
from unsc.bench.memorising import PROTOCOL, few_photographs
from unsc.bench.records.case import Case, Row
from unsc.bench.records.looking import apart, look, unwarned, worst_class
from unsc.bench.training.images import images_of
from unsc.bench.training.run import TrainingRun
from unsc.compare.networks import Networks
from unsc.compare.plan import Config, Training, Trial, trials
from unsc.compare.scenarios import Scenario, Third
from unsc.cost import metered
from unsc.datasets import read, size_of
from unsc.models import working_copy
from unsc.targets import scores_of

RECORDS = 300
_EPOCH_BATCHES = 8
"""Batches that an epoch's time is taken from."""


@dataclass(frozen=True)
class Bed:
    """A scenario and its networks, each of which is trained when it is first asked for."""

    data: Scenario
    models: Path
    records: int = RECORDS

    @property
    def networks(self) -> Networks:
        return Networks(self.models, self.data.name, self.data)

    def trial(self, number: int) -> Trial:
        config = Config(self.data.name, ("unsc",), request="records", records=self.records)
        return trials(config, self.data.num_classes, size_of(self.data.train))[number]

    def read(self, third: Third) -> Batch:
        """All of the data to train on, for validation or for the test."""
        own = getattr(self.data, third)
        return read(own, range(size_of(own)))

    def network(self, training: Training) -> nn.Module:
        self.networks.train(training)
        return self.networks.load(training)[0]


def rows(bed: Bed, seed: int) -> Iterator[Row]:
    """A trial: the original, a retrained network, and ours.

    Two networks differ on samples that neither saw as well. That is the row of retraining: how far the original is from
    it on test samples. No network can be expected to be nearer on records.
    """
    trial = bed.trial(seed)
    records, test = read(bed.data.train, trial.records), bed.read("test")
    original, retrained = bed.network(trial.original), bed.network(trial.retrained)
    yield {"what": "original", **look(original, records, test, retrained)}
    floor = apart(scores_of(original, test), scores_of(retrained, test))
    yield {"what": "retrained", **look(retrained, records, test), "js": floor}
    with unwarned(), metered() as metre:
        result = forget(original, bed.data.train, indices=trial.records, validation=bed.data.validation)
    worked = metre().cpu_seconds or 0.0
    yield {
        "what": "unsc",
        **look(result.model, records, test, retrained),
        "worst_class": worst_class(original, result.model, test),
        "epochs": worked / epoch_seconds(original, bed.read("train")),
        "steps": result.metrics.steps,
        "status": result.metrics.status,
    }


def epoch_seconds(model: nn.Module, train: Batch) -> float:
    """CPU seconds of an epoch of training a copy of `model` in float32, from a few batches after two others."""
    copy = working_copy(model).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    inputs = train.inputs
    for batches in (2, _EPOCH_BATCHES):
        size = batches * PROTOCOL.batch_size
        some = images_of(TensorDataset(inputs[:size], train.labels[:size]))
        spent = (
            TrainingRun(copy, some, None, replace(PROTOCOL, precision="float32")).epoch(lambda: None).cpu_seconds or 0.0
        )
    return spent / size * len(train)


CASE = Case(
    "photographs",
    "300 of 6,000 photographs, ResNet-8",
    {
        "records_acc": "records right %",
        "attack": "loss attack",
        "test_acc": "test %",
        "js": "JS to retrained, bits",
        "worst_class": "worst class lost",
        "epochs": "epochs",
        "steps": "steps",
        "status": "status",
    },
    (0, 1, 2),
    lambda models, seed: rows(Bed(few_photographs(), models), seed),
)
