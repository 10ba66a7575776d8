"""CIFAR-100 (Krizhevsky, 2009): 60,000 colour photographs, 32x32, of 100 fine classes; the coarse ones are unused."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.utils.data import TensorDataset

from unsc.bench.data.shared.cifar_files import class_names, images_and_labels
from unsc.bench.data.shared.image_data import DATA, ImageData
from unsc.bench.data.shared.pixels import normalised
from unsc.bench.data.shared.source import Published, Source
from unsc.bench.data.shared.split import Split
from unsc.bench.presets import cpu, long, paper

_FOLDER = "cifar-100-python"
_MEAN, _STD = (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)


def cifar_100(folder: Path) -> Split:
    root = folder / _FOLDER
    names = class_names(root / "meta", "fine_label_names", 100)

    def part(file: str) -> TensorDataset:
        images, labels = images_and_labels([root / file], "fine_labels", len(names))
        return TensorDataset(normalised(images, _MEAN, _STD), labels)

    return Split("cifar-100", part("train"), part("test"), names)


DATA.add(
    ImageData(
        "cifar-100",
        cifar_100,
        num_classes=100,
        source=Source(
            "https://www.cs.toronto.edu/~kriz/",
            _FOLDER,
            (
                Published(
                    "cifar-100-python.tar.gz",
                    "eb9058c3a382ffc7106e4002c42a8d85",
                    169_001_437,
                    ("train", "test", "meta"),
                ),
            ),
        ),
        presets={
            "paper": paper("resnet18", augmentation="crop-flip"),
            "cpu": cpu("resnet18", augmentation="crop-flip", width=0.25, epochs=6),
            "long": long("resnet18", augmentation="crop-flip", width=0.25, epochs=30),
        },
        forget=tuple(torch.randperm(100, generator=torch.Generator().manual_seed(0))[:50].tolist()),
        at_once=10,
        paper_step={"lr": 0.04, "max_passes": 25},
    )
)
