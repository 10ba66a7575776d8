"""Trained networks that are kept with the results, so that tables can be made again without training."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from torch import nn
from torch.utils.data import Subset

from unsc.compare.networks import Networks
from unsc.compare.scenarios import Scenario
from unsc.datasets import read, read_labels, size_of
from unsc.errors import InvalidRequest
from unsc.logits import accuracy
from unsc.request import of_classes
from unsc.storage.files import load_tensors, save_tensors, write_whole


def keep_networks(networks: Networks, folder: Path) -> list[Path]:
    """Copy all networks of a scenario to `folder`/SCENARIO, each with its accuracy on the test data."""
    found = sorted(networks.folder.glob("*.safetensors"))
    if not found:
        raise InvalidRequest(f"there are no trained networks in {networks.folder}; make a table first")
    kept = []
    for path in found:
        tensors, metadata = load_tensors(path)
        model = networks.read(path)[0]
        kept.append(folder / networks.data / path.name)
        save_tensors(kept[-1], tensors, {**metadata, "test_acc": _test_accuracy(model, networks.scenario, path.stem)})
    return kept


def take_networks(data: str, folder: Path, models: Path) -> list[Path]:
    """Put the networks of a scenario that `keep_networks` wrote to `folder` into `models`, unless they are there."""
    if not (folder / data).is_dir():
        raise InvalidRequest(f"there is no folder {folder / data} with trained networks; leave --networks out")
    taken = []
    for path in sorted((folder / data).glob("*.safetensors")):
        place = models / path.name
        if not place.exists():
            write_whole(place, lambda p, path=path: shutil.copyfile(path, p))
            taken.append(place)
    return taken


def _test_accuracy(model: nn.Module, scenario: Scenario, key: str) -> float:
    """In percent, of the classes that a network was trained on; its key says which were left out."""
    named = re.fullmatch(r"without-([\d-]+)-\d+", key)
    left_out = [int(k) for k in named[1].split("-")] if named else []
    known = ~of_classes(read_labels(scenario.test), left_out)
    part = Subset(scenario.test, known.nonzero().flatten().tolist())
    return accuracy(model, read(part, range(size_of(part))))
