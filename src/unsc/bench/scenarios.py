"""The data sets as scenarios: data, network and training protocol together."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from torch import nn
from torch.utils.data import Dataset, Subset

from unsc.bench.data.shared.image_data import DATA, ImageData
from unsc.bench.datasets import data_folder
from unsc.bench.memorising import few_photographs, noisy_digits
from unsc.bench.presets import split_validation
from unsc.bench.train import Trained, train
from unsc.compare.scenarios import Provider, Scenario
from unsc.cost import Cost
from unsc.datasets import read_labels
from unsc.errors import InvalidRequest
from unsc.request import of_classes


def scenarios() -> dict[str, Provider]:
    """What makes a scenario, by its name: the entry point `unsc.scenarios` of this package.

    There is one of each data set, and two whose networks memorise.
    """
    of_data = {name: partial(data_scenario, data) for name, data in DATA.all().items()}
    return {**of_data, "digits-noisy": noisy_digits, "records": few_photographs}


def data_scenario(data: ImageData, preset: str | None = None) -> Scenario:
    """The scenario of a data set, its own, or one of its presets; by default `cpu`."""
    if data.own_scenario is None:
        return preset_scenario(data, preset, data_folder(data.name))
    if preset is not None:
        raise InvalidRequest(f"{data.name}@{preset}: {data.name} has no presets; name it by itself")
    return data.own_scenario()


def preset_scenario(data: ImageData, preset: str | None, folder: Path) -> Scenario:
    """A data set with the network of a preset; a tenth of its training data is for validation."""
    chosen, split = data.preset(preset), data.load(folder)
    kept, validation = split_validation(split.train, seed=0)

    def trained(dataset: Dataset, seed: int, checkpoint: Path | None = None) -> Trained:
        model, held_out = chosen.build(split, seed=seed), _same_classes(validation, dataset)
        return train(model, dataset, held_out, chosen.protocol, seed=seed, checkpoint=checkpoint, log=_log)

    def resumable(dataset: Dataset, seed: int, checkpoint: Path) -> tuple[nn.Module, Cost]:
        done = trained(dataset, seed, checkpoint)
        return done.model, done.cost

    return Scenario(
        full_name(data.name, preset),
        kept,
        validation,
        split.test,
        len(split.classes),
        lambda: chosen.build(split, seed=0),
        lambda dataset, seed: trained(dataset, seed).model,
        resumable=resumable,
        about=chosen.about(),
    )


def full_name(data: str, preset: str | None) -> str:
    """The scenario's name: the data set's, and after an @ the preset if it is not `cpu`."""
    return data if preset in (None, "cpu") else f"{data}@{preset}"


def _same_classes(validation: Dataset, data: Dataset) -> Subset:
    """The validation samples of the classes that are trained on: the others cannot be learned."""
    known = of_classes(read_labels(validation), read_labels(data).unique().tolist())
    return Subset(validation, known.nonzero().flatten().tolist())


def _log(line: str) -> None:
    print(line, flush=True)
