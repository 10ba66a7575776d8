"""Trained networks that are kept with the results, so that tables can be made again without training."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch.utils.data import Subset

from unsc.bench.data.shared.image_data import DATA
from unsc.compare.networks import Networks
from unsc.compare.scenarios import Scenario, parse_name
from unsc.datasets import read, read_labels, size_of
from unsc.errors import InvalidData, InvalidRequest
from unsc.logits import accuracy
from unsc.request import of_classes
from unsc.storage.files import load_tensors, save_tensors, write_whole


def keep_networks(networks: Networks, folder: Path) -> list[Path]:
    """Copy all networks of a scenario to `folder`/SCENARIO, each with its protocol and its test accuracy."""
    found = sorted(networks.folder.glob("*.safetensors"))
    if not found:
        raise InvalidRequest(f"there are no trained networks in {networks.folder}; make a table first")
    kept = []
    for path in found:
        tensors, metadata = load_tensors(path)
        model = networks.scenario.network()
        model.load_state_dict(tensors)
        about = {**metadata, **_about(networks.data), "test_acc": _test_accuracy(model.eval(), networks.scenario, path)}
        kept.append(folder / networks.data / path.name)
        save_tensors(kept[-1], tensors, about)
    return kept


def take_networks(data: str, folder: Path, models: Path) -> list[Path]:
    """Put the networks of a scenario that `keep_networks` wrote to `folder` into `models`, unless they are there.

    Those that another protocol trained than the preset's of today are refused.
    """
    if not (folder / data).is_dir():
        raise InvalidRequest(f"there is no folder {folder / data} with trained networks; leave --networks out")
    taken = []
    for path in sorted((folder / data).glob("*.safetensors")):
        _, metadata = load_tensors(path)
        for name, value in _about(data).items():
            if metadata.get(name) != value:
                raise InvalidData(
                    f"{path} has the {name} {metadata.get(name)}, and {data} has {value}; remove it, or name another "
                    "folder with --networks"
                )
        place = models / path.name
        if not place.exists():
            write_whole(place, lambda p, path=path: shutil.copyfile(path, p))
            taken.append(place)
    return taken


def _about(data: str) -> dict[str, Any]:
    """The network and the protocol of a scenario's preset, as JSON has them."""
    name, preset = parse_name(data)
    chosen = DATA.find(name).preset(preset)
    network = {"name": chosen.network, "width": chosen.width, **chosen.options}
    return json.loads(json.dumps({"network": network, "protocol": asdict(chosen.protocol)}))


def _test_accuracy(model: Any, scenario: Scenario, path: Path) -> float:
    """In percent, of the classes that a network was trained on; its file's name says which are left out."""
    left_out = [int(k) for k in path.stem.split("-")[1:-1]] if path.stem.startswith("without-") else []
    known = ~of_classes(read_labels(scenario.test), left_out)
    part = Subset(scenario.test, known.nonzero().flatten().tolist())
    return accuracy(model, read(part, range(size_of(part))))
