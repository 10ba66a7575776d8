"""Where data and trained networks come from, and what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from unsc.bench import networks
from unsc.bench.datasets import Split, load
from unsc.bench.train import fit
from unsc.errors import InvalidData, UnscError
from unsc.loading.weights import read_weights
from unsc.progress import Progress, quiet
from unsc.storage.files import write_whole


class Missing(UnscError):
    """A row cannot be measured here; the message says what it needs."""


@dataclass(frozen=True)
class Place:
    """Files that rows may use."""

    cache: Path
    """The folder in which networks are kept that were trained here."""
    folder: Path | None = None
    """The data sets' files."""
    resnet20: Path | None = None
    """Weights of a ResNet-20 for CIFAR-10: the public resnet20-12fca82f.th."""
    resnet18_100: Path | None = None
    """Weights of a ResNet-18 of width 0.25 with 100 outputs for CIFAR-100."""
    densenet: Path | None = None
    """Weights of a DenseNet-BC of 58 layers with a first stride of 2, for CIFAR-10."""
    alexnet: Path | None = None
    """Weights of the paper's AlexNet for FashionMNIST; without them it is trained for one epoch."""
    progress: Progress = quiet

    def data(self, name: str) -> Split:
        if self.folder is None:
            raise Missing(f"needs the files of {name}: give --folder DIR, or set UNSC_DATA")
        return load(name, self.folder)

    def network(self, name: str) -> nn.Module:
        """A trained network: `resnet20`, `resnet18-100`, `densenet` or `alexnet`, in evaluation mode."""
        if name == "alexnet":
            return self._alexnet()
        path, model, what, option = {
            "resnet20": (self.resnet20, networks.ResNet20(10), "a ResNet-20 with 10 outputs", "--checkpoint"),
            "resnet18-100": (
                self.resnet18_100,
                networks.ResNet18(100, width=0.25),
                "a ResNet-18 of width 0.25 with 100 outputs",
                "--cifar-100",
            ),
            "densenet": (
                self.densenet,
                networks.DenseNet(10, depth=58, stride=2),
                "a DenseNet-BC of 58 layers with a first stride of 2",
                "--densenet",
            ),
        }[name]
        if path is None:
            raise Missing(f"needs weights of {what}: give {option} FILE")
        return _with_weights(model, path)

    def _alexnet(self) -> nn.Module:
        kept = self.alexnet or self.cache / "alexnet-1-epoch.safetensors"
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = networks.AlexNet()
        if kept.exists() or self.alexnet is not None:
            return _with_weights(model, kept)
        train = self.data("fashion-mnist").train
        fit(model, *train.tensors, epochs=1, lr=0.1, batch_size=128, progress=self.progress)
        state = model.state_dict()
        write_whole(kept, lambda p: save_file(state, p))
        return model


def _with_weights(model: nn.Module, path: Path) -> nn.Module:
    state = {name.removeprefix("module."): tensor for name, tensor in read_weights(path).items()}
    try:
        model.load_state_dict(state)
    except RuntimeError as e:
        raise InvalidData(f"{path} does not fit {type(model).__name__}: {e}") from e
    return model.eval()
