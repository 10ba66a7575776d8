"""CIFAR-10 (Krizhevsky, 2009): 60,000 colour photographs, 32x32, of 10 classes."""

from __future__ import annotations

from pathlib import Path

from torch.utils.data import TensorDataset

from unsc.bench.data.shared.cifar_files import class_names, images_and_labels
from unsc.bench.data.shared.image_data import DATA, ImageData
from unsc.bench.data.shared.pixels import normalised
from unsc.bench.data.shared.source import Published, Source
from unsc.bench.data.shared.split import Split
from unsc.bench.presets import cpu, long, paper

_FOLDER = "cifar-10-batches-py"
_TRAIN = tuple(f"data_batch_{i}" for i in range(1, 6))
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""ImageNet's, not CIFAR-10's own: public CIFAR-10 networks were trained with them."""


def cifar_10(folder: Path) -> Split:
    root = folder / _FOLDER
    names = class_names(root / "batches.meta", "label_names", 10)

    def part(*files: str) -> TensorDataset:
        images, labels = images_and_labels([root / name for name in files], "labels", len(names))
        return TensorDataset(normalised(images, _MEAN, _STD), labels)

    return Split("cifar-10", part(*_TRAIN), part("test_batch"), names)


DATA.add(
    ImageData(
        "cifar-10",
        cifar_10,
        num_classes=10,
        source=Source(
            "https://www.cs.toronto.edu/~kriz/",
            _FOLDER,
            (
                Published(
                    "cifar-10-python.tar.gz",
                    "c58f30108f718f92721af3b95e74349a",
                    170_498_071,
                    (*_TRAIN, "test_batch", "batches.meta"),
                ),
            ),
        ),
        presets={
            "paper": paper("allcnn", augmentation="crop-flip", width=0.5),
            "cpu": cpu("allcnn", augmentation="crop-flip", width=0.5, epochs=6),
            "long": long("allcnn", augmentation="crop-flip", width=0.5, epochs=20),
            # Deep enough for layers that move together to show; 16x16 pixels inside take a quarter of the time.
            "deep": long("densenet", augmentation="crop-flip", epochs=10, depth=58, stride=2),
        },
        forget=(3, 5, 4, 7, 2),
        paper_step={"lr": 0.04, "max_passes": 25},
    )
)
