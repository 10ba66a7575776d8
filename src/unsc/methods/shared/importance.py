"""How much each weight matters to some data: squared gradients of the loss, sample by sample or batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.logits import logits_of
from unsc.methods.shared.per_sample import Loss, sum_of_squares, trained
from unsc.progress import Advance

Importance: TypeAlias = dict[str, Tensor]
"""A number for each weight, by parameter name and in the parameter's shape; frozen parameters are left out."""

_cross_entropy = partial(F.cross_entropy, reduction="sum")


def true_fisher(model: nn.Module, batches: Iterable[Batch], advance: Advance) -> Importance:
    """The diagonal of the Fisher information: the mean over samples of `sum_y p(y|x) (d log p(y|x) / dw)^2`.

    The expectation over the network's own labels is exact. A confident network's rare labels carry most of it, so
    that drawing one label for each sample would nearly always miss it.
    """

    def of(batch: Batch) -> Importance:
        labels = range(_width(model, batch))
        return squared_gradients(model, batch, [_weighted_log_likelihood(label) for label in labels])

    return _mean(model, batches, of, len, advance)


def empirical_fisher(model: nn.Module, batches: Iterable[Batch], advance: Advance) -> Importance:
    """The mean over samples of the squared gradient of the cross entropy with each sample's true label."""
    return _mean(model, batches, lambda batch: squared_gradients(model, batch, [_cross_entropy]), len, advance)


def batch_importance(model: nn.Module, batches: Iterable[Batch], advance: Advance) -> Importance:
    """The mean over batches of the squared gradient of each batch's mean cross entropy."""

    def one(_: Batch) -> int:
        return 1

    return _mean(model, batches, lambda batch: _squared_gradient(model, batch, F.cross_entropy), one, advance)


def _mean(
    model: nn.Module,
    batches: Iterable[Batch],
    of: Callable[[Batch], Importance],
    count: Callable[[Batch], int],
    advance: Advance,
) -> Importance:
    """The sum of what `of` gives for each batch, divided by the sum of what `count` says it stands for."""
    total, n = _zeros(model), 0
    for batch in batches:
        _add(total, of(batch.for_model(model)))
        n += count(batch)
        advance()
    return {name: value / n for name, value in total.items()}


def squared_gradients(model: nn.Module, batch: Batch, losses: Sequence[Loss]) -> Importance:
    """The sum over `losses` and the samples of `batch` of the squared gradient, taken of one sample at a time."""
    at_once = sum_of_squares(model, batch, losses)
    if at_once is not None:
        return at_once
    total = _zeros(model)
    for chosen in torch.arange(len(batch), device=batch.labels.device).split(1):
        for loss in losses:
            _add(total, _squared_gradient(model, batch[chosen], loss))
    return total


def _squared_gradient(model: nn.Module, batch: Batch, loss: Loss) -> Importance:
    parameters = trained(model)
    value = loss(logits_of(model, batch), batch.labels)
    gradients = torch.autograd.grad(value, list(parameters.values()), materialize_grads=True)
    return {name: g.square() for name, g in zip(parameters, gradients, strict=True)}


def _weighted_log_likelihood(label: int) -> Loss:
    """The squared gradient of a sample is `p (d log p / dw)^2` for the probability p of `label`."""

    def loss(logits: Tensor, _: Tensor) -> Tensor:
        log_p = logits.log_softmax(dim=1)[:, label]
        return ((log_p.detach() / 2).exp() * log_p).sum()

    return loss


@torch.no_grad()
def _width(model: nn.Module, batch: Batch) -> int:
    return logits_of(model, batch[torch.tensor([0], device=batch.labels.device)]).shape[1]


def _zeros(model: nn.Module) -> Importance:
    return {name: torch.zeros_like(p) for name, p in trained(model).items()}


@torch.no_grad()
def _add(total: Importance, part: Importance) -> None:
    for name, value in part.items():
        total[name] += value
