"""Continue training on what stays, and rely on catastrophic forgetting."""

from __future__ import annotations

import torch.nn.functional as F
from torch import nn

from unsc.logits import logits_of
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.search import Range
from unsc.methods.shared.training import descend, number_of_batches, passes


@method(needs=("retain",), search={"lr": Range(1e-3, 1e-1, log=True), "epochs": Range(1, 20)})
def finetune(
    problem: Problem, *, lr: float = 0.01, epochs: int = 10, batch_size: int = 64, weight_decay: float = 5e-4
) -> nn.Module:
    """Source: Golatkar, Achille, Soatto, "Eternal Sunshine of the Spotless Net: Selective Forgetting in Deep
    Networks", CVPR 2020; Warnecke, Pirch, Wressnegger, Rieck, "Machine Unlearning of Features and Labels", NDSS 2023.

    Mechanism: continue training on the retained samples, so that the rest fades by catastrophic forgetting.

    Data: retained.

    Published: SGD, learning rate 0.01, 10 epochs, batches of 256, momentum 0.9, weight decay 5e-4 (Jia et al.,
    NeurIPS 2023, for CIFAR-10).

    Departures: evaluation mode, so that the statistics of batch norm stay fixed and dropout is off, where the
    publication trains in training mode; batches of 64, so that small data sets get enough steps; no augmentation.
    """
    model = problem.copy()
    return descend(
        model,
        passes(problem.retain, size=batch_size, epochs=epochs, seed=problem.seed),
        lambda batch: F.cross_entropy(logits_of(model, batch), batch.labels),
        lr=lr,
        weight_decay=weight_decay,
        total=number_of_batches(problem.retain, size=batch_size, epochs=epochs),
        progress=problem.progress,
    )
