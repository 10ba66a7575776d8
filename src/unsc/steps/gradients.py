"""Gradients by name, of one rank's samples and of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from unsc import peers
from unsc.batches import Batch
from unsc.sharded import is_sharded, one_pass, stand_in
from unsc.shards import is_shard

BatchLoss = Callable[[Batch, Tensor], Tensor]
"""From a batch and its target distributions (n, classes): a number."""


def gradients_of(loss: Tensor, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The gradients of `loss` by name; zero where it does not depend on a parameter."""
    grads = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(parameters, grads, strict=True))


def total_gradients(
    model: nn.Module, parameters: Mapping[str, Tensor], loss: BatchLoss, batch: Batch, targets: Tensor
) -> tuple[float, dict[str, Tensor]]:
    """The sum over ranks of a loss on the batch of each, which may be empty, and of its gradients by some parameters.

    Those of a sharded network are shards as its weights are.
    """
    if is_sharded(model):
        value, grads = _of_shards(model, parameters, loss, batch, targets)
    elif len(batch):
        own = loss(batch, targets)
        value, grads = own.item(), gradients_of(own, parameters)
    else:
        value, grads = 0.0, {name: torch.zeros_like(p) for name, p in parameters.items()}
    apart = [name for name, g in grads.items() if not is_shard(g)]
    return peers.total_of(value)[0], grads | dict(zip(apart, peers.total([grads[n] for n in apart]), strict=True))


def _of_shards(
    model: nn.Module, parameters: Mapping[str, Tensor], loss: BatchLoss, batch: Batch, targets: Tensor
) -> tuple[float, dict[str, Tensor]]:
    """As a backward pass leaves them: summed over ranks, but for parameters that are no shards."""
    one = stand_in(model)
    if len(batch) or one is None:
        own = loss(batch, targets)
    else:  # all ranks make the pass
        own = 0 * loss(one.for_model(model), targets.new_full((1, targets.shape[1]), 1 / targets.shape[1]))
    for p in model.parameters():
        p.grad = None
    with one_pass(model):
        own.backward()
    found = {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in parameters.items()}
    for p in model.parameters():
        p.grad = None
    # The backward pass gives the mean over ranks.
    return own.item(), {name: peers.count() * g if is_shard(g) else g for name, g in found.items()}
