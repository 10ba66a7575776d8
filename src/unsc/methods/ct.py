"""Convolution transpose: every kernel is mirrored along its diagonal, and the network trained again."""

from __future__ import annotations

import torch
from torch import nn

from unsc.errors import UnsupportedModel
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.repair import repaired
from unsc.methods.shared.search import Range


@method(needs=("retain",), search={"lr": Range(1e-3, 1e-1, log=True), "epochs": Range(1, 10)})
def ct(
    problem: Problem, *, lr: float = 0.01, epochs: int = 3, batch_size: int = 64, weight_decay: float = 5e-4
) -> nn.Module:
    """Source: an entry to the NeurIPS 2023 unlearning competition, convolution transpose in Cadet, Borovykh,
    Malekzadeh, Ahmadi-Abhari, Haddadi, "Deep Unlearn: Benchmarking Machine Unlearning", 2024.

    Mechanism: height and width of every convolution's kernel change places, which disturbs what was memorised more
    than what is general; then the network is trained on retained samples.

    Data: retained.

    Published: SGD, learning rate 0.001 falling along a cosine, momentum 0.9, weight decay 5e-4, 3 epochs, batches
    of 64.

    Departures: a constant learning rate of 0.01 by default, since small data sets give few steps; kernels that are
    not square stay as they are. In training mode, as published: batch norm has to get to know the new weights, and
    retained samples are what it knew before.
    """
    model = problem.copy()
    transposed(model)
    return repaired(problem, model, lr=lr, epochs=epochs, batch_size=batch_size, weight_decay=weight_decay)


@torch.no_grad()
def transposed(model: nn.Module) -> None:
    """Mirror the kernels of all two-dimensional convolutions, in place."""
    kernels = [m.weight for m in model.modules() if isinstance(m, nn.Conv2d) and m.kernel_size[0] == m.kernel_size[1]]
    if not any(kernel.shape[2] > 1 for kernel in kernels):
        raise UnsupportedModel(
            f"{type(model).__name__} has no two-dimensional convolution with a square kernel of more than one pixel; "
            "choose another method, such as msg"
        )
    for kernel in kernels:
        kernel.copy_(kernel.transpose(2, 3).clone())
