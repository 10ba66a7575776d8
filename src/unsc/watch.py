"""Watch what unlearning does to retained predictions, on retained samples that no moment was taken from.

The measure is the KL divergence in nats from the original network's predictions to the current ones, with the
forgotten classes taken out of both, as a network that never saw them would have it. A network that is certain
of everything hides large changes: its predictions are softened by a temperature T first, and the divergence
is multiplied by T squared, which keeps its second-order meaning. T is 1 unless the network is that certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.layers import Layer, observe
from unsc.logits import check_logits, logits_of

_UNCERTAINTY = 0.1
"""Softened predictions p have a mean of `1 - sum p**2` of at least this."""


class Watch:
    """Retained predictions of the original network, to hold later ones against."""

    def __init__(self, model: nn.Module, retained: Sequence[Batch], kept: Tensor, *, quick: int = 128) -> None:
        """`model` is the original; `kept` (classes,) is true for classes that stay; `quick` samples serve each step."""
        # With a single class left, predictions over the classes that stay cannot change: watch them all.
        kept = kept if int(kept.sum()) > 1 else torch.ones_like(kept)
        self.kept = kept.to(next(model.parameters()).device)
        self.batches = [b.for_model(model) for b in retained]
        with torch.no_grad():
            logits = [logits_of(model, b) for b in self.batches]
        for part in logits:
            check_logits(part)
        self._logits = [part[:, self.kept].float() for part in logits]
        self.temperature = softening(torch.cat(self._logits))
        self._quick = max(1, -(-quick // max(len(self.batches[0]), 1)))

    @torch.no_grad()
    def _kept_logits(self, model: nn.Module, batch: Batch) -> Tensor:
        return logits_of(model, batch)[:, self.kept].float()

    def log_probabilities(self, logits: Tensor) -> Tensor:
        """Softened, over the classes that stay: (n, kept classes), from logits (n, classes)."""
        return (logits[:, self.kept].float() / self.temperature).log_softmax(dim=1)

    def kl(self, model: nn.Module) -> float:
        """Mean softened divergence of `model` from the original; NaN if its predictions are not finite."""
        return self._kl(model, len(self.batches))

    def quick_kl(self, model: nn.Module) -> float:
        """The same on a few samples, for after each step."""
        return self._kl(model, self._quick)

    def _kl(self, model: nn.Module, batches: int) -> float:
        total, n = 0.0, 0
        for batch, before in zip(self.batches[:batches], self._logits[:batches], strict=True):
            p = (before / self.temperature).log_softmax(dim=1)
            q = (self._kept_logits(model, batch) / self.temperature).log_softmax(dim=1)
            total += (p.exp() * (p - q)).sum().item()
            n += len(batch)
        value = self.temperature**2 * total / n
        return max(value, 0.0) if value == value else value


def softening(logits: Tensor) -> float:
    """The smallest temperature, at least 1, at which predictions are uncertain enough to show a change."""
    temperature = 1.0
    while temperature < 100:
        p = (logits / temperature).softmax(dim=1)
        if (1 - p.square().sum(dim=1)).mean() >= _UNCERTAINTY:
            break
        temperature *= 1.1
    return temperature


def drift(
    original: nn.Module, model: nn.Module, layers: Iterable[Layer], retained: Iterable[Batch]
) -> dict[str, float]:
    """How far each layer's outputs moved on retained rows (Theorem 1, measured), relative to their size.

    `||R (W - W0).T|| / ||R W0.T||` in Frobenius norm, with R the rows that `retained` has in the original network.
    """
    layers = tuple(layers)
    before, after = dict(original.named_parameters()), dict(model.named_parameters())
    with torch.no_grad():
        weights = {x.name: (x.matrix(after) - x.matrix(before), x.matrix(before)) for x in layers}
    sums = {x.name: [0.0, 0.0] for x in layers}

    def receive(layer: Layer, rows: Tensor) -> None:
        for i, matrix in enumerate(weights[layer.name]):
            sums[layer.name][i] += (rows @ matrix.mT).double().square().sum().item()

    with observe(original, layers, receive):
        for batch in retained:
            logits_of(original, batch.for_model(original))
    return {name: (moved / size) ** 0.5 if size > 0 else 0.0 for name, (moved, size) in sums.items()}
