"""The networks that sequences are measured on: four kinds, all trained on the digits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from unsc.bench.datasets import Split, load
from unsc.bench.networks import digits_cnn, digits_mlp, network
from unsc.bench.train import fit

ORDERS = ((3, 8, 9, 5, 2), (2, 5, 9, 8, 3), (0, 1, 4, 6, 7), (9, 7, 5, 3, 1))
"""Classes in the order in which they are forgotten."""
SEEDS = (0, 1, 2)
_LEVELS, _PIXELS = 17, 64


def token_network() -> nn.Module:
    """A bag of tokens and a hidden layer, as in small classifiers of text."""
    return nn.Sequential(nn.EmbeddingBag(_LEVELS * _PIXELS, 64), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def as_tokens(images: Tensor) -> Tensor:
    """Digits (n, 1, 8, 8) as 64 tokens each, int64 (n, 64): a token is a pixel's place and its level."""
    pixels = images.flatten(1)
    levels = ((pixels - pixels.min()) / (pixels.max() - pixels.min()) * (_LEVELS - 1)).round().long()
    return levels + _LEVELS * torch.arange(_PIXELS)


@dataclass(frozen=True)
class Setup:
    """A kind of network, the form of its inputs, and the orders that it forgets classes in."""

    make: Callable[[], nn.Module]
    inputs: Callable[[Tensor], Tensor]
    """From images (n, 1, 8, 8)."""
    orders: tuple[tuple[int, ...], ...]
    lr: float = 0.05

    def data(self) -> Split:
        """The digits as this network takes them."""
        split = load("digits")
        train, test = (
            TensorDataset(self.inputs(part.tensors[0]), part.tensors[1]) for part in (split.train, split.test)
        )
        return Split(split.name, train, test, split.classes)

    def trained(self, data: Split, seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return fit(self.make(), *data.train.tensors, epochs=20, lr=self.lr, batch_size=64, seed=seed)


def _as_they_are(images: Tensor) -> Tensor:
    return images


SETUPS = {
    "cnn": Setup(digits_cnn, _as_they_are, ORDERS),
    "mlp": Setup(lambda: digits_mlp(128), _as_they_are, ORDERS[:2]),
    "resnet8": Setup(lambda: network("resnet8", 10, 1, 0.5), _as_they_are, ORDERS[:2]),
    "tokens": Setup(token_network, as_tokens, ORDERS[:2], lr=0.5),
}
