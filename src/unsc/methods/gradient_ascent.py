"""Training backwards on what is to be forgotten."""

from __future__ import annotations

import torch.nn.functional as F
from torch import nn

from unsc.logits import logits_of
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.search import Range
from unsc.methods.shared.training import bounded, descend, number_of_batches, passes


@method(needs=("forget",), search={"lr": Range(1e-5, 1.0, log=True), "epochs": Range(1, 20)})
def gradient_ascent(
    problem: Problem,
    *,
    lr: float = 1e-4,
    epochs: int = 5,
    batch_size: int = 64,
    momentum: float = 0.0,
    limit: float = 0.5,
) -> nn.Module:
    """Source: Golatkar, Achille, Soatto, "Eternal Sunshine of the Spotless Net: Selective Forgetting in Deep
    Networks", CVPR 2020; Thudi, Deza, Chandrasekaran, Papernot, "Unrolling SGD: Understanding Factors Influencing
    Machine Unlearning", IEEE EuroS&P 2022.

    Mechanism: SGD that raises the cross-entropy of the forgotten samples instead of lowering it.

    Data: forgotten.

    Published: SGD, learning rate 1e-4, 5 epochs, batches of 256, momentum 0.9, weight decay 5e-4 (Jia et al.,
    NeurIPS 2023, for CIFAR-10).

    Departures: evaluation mode, so that the statistics of batch norm stay fixed and dropout is off, where the
    publication trains in training mode; batches of 64, so that small requests get more than one step in each epoch;
    no weight decay, which would pull at all weights whatever is to be forgotten; no momentum, which carries a network
    far beyond the point where it begins to forget; a sample whose loss has reached `limit` times that of guessing is
    left alone, where the published loss has no upper bound and the network diverges soon after it begins to forget.
    """
    model = problem.copy()
    return descend(
        model,
        passes(problem.forget, size=batch_size, epochs=epochs, seed=problem.seed),
        lambda batch: (
            -bounded(
                F.cross_entropy(logits_of(model, batch), batch.labels, reduction="none"), problem.num_classes, limit
            )
        ),
        lr=lr,
        momentum=momentum,
        total=number_of_batches(problem.forget, size=batch_size, epochs=epochs),
        progress=problem.progress,
    )
