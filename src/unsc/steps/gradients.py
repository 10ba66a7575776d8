"""Gradients by name, of one rank's samples and of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from unsc import peers


def gradients_of(loss: Tensor, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The gradients of `loss` by name; zero where it does not depend on a parameter."""
    grads = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(parameters, grads, strict=True))


def total_gradients(
    loss: Callable[[], Tensor] | None, parameters: Mapping[str, Tensor]
) -> tuple[float, dict[str, Tensor]]:
    """The sum over ranks of a loss and of its gradients; None on a rank that has no samples."""
    if loss is None:
        value, grads = 0.0, {name: torch.zeros_like(p) for name, p in parameters.items()}
    else:
        own = loss()
        value, grads = own.item(), gradients_of(own, parameters)
    summed = peers.total(list(grads.values()))
    return peers.total_of(value)[0], dict(zip(parameters, summed, strict=True))
