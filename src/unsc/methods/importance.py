"""How much each weight matters to some data: squared gradients of the loss, sample by sample or batch by batch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.utils._pytree import tree_leaves, tree_map_only

from unsc.progress import Advance
from unsc.samples import Batch, logits_of

Importance: TypeAlias = dict[str, Tensor]
"""A number for each weight, by parameter name and in the parameter's shape; frozen parameters are left out."""
Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""A scalar from logits (n, classes) and labels (n,)."""

_MOST_BYTES = 128 << 20
"""For the gradients of single samples that exist at once."""


def true_fisher(model: nn.Module, batches: Iterable[Batch], advance: Advance) -> Importance:
    """The diagonal of the Fisher information: the mean over samples of `sum_y p(y|x) (d log p(y|x) / dw)^2`.

    The expectation over the network's own labels is exact. A confident network's rare labels carry most of it, so
    that drawing one label for each sample would nearly always miss it.
    """
    total, n = _zeros(model), 0
    for batch in batches:
        on_device = batch.for_model(model)
        for label in range(_width(model, on_device)):
            _add(total, squared_gradients(model, on_device, _weighted_log_likelihood(label)))
        n += len(batch)
        advance()
    return {name: value / n for name, value in total.items()}


def empirical_fisher(model: nn.Module, batches: Iterable[Batch], advance: Advance) -> Importance:
    """The mean over samples of the squared gradient of the cross entropy with each sample's true label."""
    total, n = _zeros(model), 0
    for batch in batches:
        _add(total, squared_gradients(model, batch.for_model(model), F.cross_entropy))
        n += len(batch)
        advance()
    return {name: value / n for name, value in total.items()}


def batch_importance(model: nn.Module, batches: Iterable[Batch], advance: Advance) -> Importance:
    """The mean over batches of the squared gradient of each batch's mean cross entropy."""
    total, n = _zeros(model), 0
    for batch in batches:
        _add(total, _squared_gradient(model, batch.for_model(model), F.cross_entropy))
        n += 1
        advance()
    return {name: value / n for name, value in total.items()}


def squared_gradients(model: nn.Module, batch: Batch, loss: Loss) -> Importance:
    """The sum over the samples of `batch` of the squared gradient of `loss`, taken of one sample at a time."""
    if _small(batch):
        try:
            return _all_at_once(model, batch, loss)
        except RuntimeError:  # an operation that cannot be vectorised over samples
            pass
    total = _zeros(model)
    for chosen in torch.arange(len(batch), device=batch.labels.device).split(1):
        _add(total, _squared_gradient(model, batch[chosen], loss))
    return total


def _small(batch: Batch) -> bool:
    """Whether all samples at once are faster: on a CPU, convolutions of larger pictures are not."""
    values = sum(t.numel() for t in tree_leaves(batch.inputs) if isinstance(t, Tensor)) // len(batch)
    return batch.labels.device.type != "cpu" or values <= 1024


class _Scores(nn.Module):
    """Logits of a batch, as a module, so that the weights can be passed in."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> Tensor:
        return logits_of(self.model, batch)


def _all_at_once(model: nn.Module, batch: Batch, loss: Loss) -> Importance:
    scores = _Scores(model)

    def of_one(weights: dict[str, Tensor], inputs: object, label: Tensor) -> Tensor:
        single = Batch(tree_map_only(Tensor, lambda t: t[None], inputs), label[None])
        logits = functional_call(scores, {f"model.{name}": w for name, w in weights.items()}, (single,))
        return loss(logits, single.labels)

    weights = {name: p.detach() for name, p in _trained(model).items()}
    sample_bytes = sum(w.numel() * w.element_size() for w in weights.values())
    total = _zeros(model)
    for chosen in torch.arange(len(batch), device=batch.labels.device).split(max(1, _MOST_BYTES // sample_bytes)):
        part = batch[chosen]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="There is a performance drop")  # slow is still right
            gradients = vmap(grad(of_one), in_dims=(None, 0, 0))(weights, part.inputs, part.labels)
        _add(total, {name: g.square().sum(dim=0) for name, g in gradients.items()})
    return total


def _squared_gradient(model: nn.Module, batch: Batch, loss: Loss) -> Importance:
    parameters = _trained(model)
    value = loss(logits_of(model, batch), batch.labels)
    gradients = torch.autograd.grad(value, list(parameters.values()), materialize_grads=True)
    return {name: g.square() for name, g in zip(parameters, gradients, strict=True)}


def _weighted_log_likelihood(label: int) -> Loss:
    """Its squared gradient is `p (d log p / dw)^2` for the probability p of `label`."""

    def loss(logits: Tensor, _: Tensor) -> Tensor:
        log_p = logits.log_softmax(dim=1)[:, label].sum()
        return (log_p.detach() / 2).exp() * log_p

    return loss


@torch.no_grad()
def _width(model: nn.Module, batch: Batch) -> int:
    return logits_of(model, batch[torch.tensor([0], device=batch.labels.device)]).shape[1]


def _trained(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def _zeros(model: nn.Module) -> Importance:
    return {name: torch.zeros_like(p) for name, p in _trained(model).items()}


@torch.no_grad()
def _add(total: Importance, part: Importance) -> None:
    for name, value in part.items():
        total[name] += value
