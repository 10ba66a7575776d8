"""The paper's four cases as scenarios: data, network and training protocol together."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import Dataset, Subset

from unsc.bench.datasets import load
from unsc.bench.presets import preset, split_validation
from unsc.bench.train import Trained, train
from unsc.compare.scenarios import Scenario
from unsc.cost import Cost
from unsc.datasets import read_labels
from unsc.errors import InvalidRequest


def paper_scenario(dataset: str, name: str = "cpu", folder: Path | None = None) -> Scenario:
    """A data set of the paper with its network, trained by the preset `name`; a tenth of it is for validation."""
    folder = folder or data_folder(dataset)
    chosen, split = preset(dataset, name), load(dataset, folder)
    kept, validation = split_validation(split.train, seed=0)

    def trained(data: Dataset, seed: int, checkpoint: Path | None = None) -> Trained:
        model, held_out = chosen.build(split, seed=seed), _same_classes(validation, data)
        return train(model, data, held_out, chosen.protocol, seed=seed, checkpoint=checkpoint, log=_log)

    def resumable(data: Dataset, seed: int, checkpoint: Path) -> tuple[nn.Module, Cost]:
        done = trained(data, seed, checkpoint)
        return done.model, done.cost

    return Scenario(
        dataset if name == "cpu" else f"{dataset}@{name}",
        kept,
        validation,
        split.test,
        len(split.classes),
        lambda: chosen.build(split, seed=0),
        lambda data, seed: trained(data, seed).model,
        resumable=resumable,
    )


def data_folder(dataset: str) -> Path:
    """The folder that UNSC_DATA names."""
    named = os.environ.get("UNSC_DATA")
    if not named:
        raise InvalidRequest(f"{dataset} is read from files; say where with --folder, or set UNSC_DATA to that folder")
    return Path(named)


def _same_classes(validation: Dataset, data: Dataset) -> Subset:
    """The validation samples of the classes that are trained on: the others cannot be learned."""
    known = torch.isin(read_labels(validation), read_labels(data).unique())
    return Subset(validation, known.nonzero().flatten().tolist())


def _log(line: str) -> None:
    print(line, flush=True)
