"""Continue training on what stays, under a penalty that drives weights to zero."""

from __future__ import annotations

from itertools import count

import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.errors import InvalidRequest
from unsc.logits import logits_of
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.search import Range
from unsc.methods.shared.training import descend, number_of_batches, passes


@method(
    needs=("retain",),
    search={
        "lr": Range(1e-3, 1e-1, log=True),
        "epochs": Range(1, 20),
        "penalty": Range(1e-5, 1e-2, log=True),
    },
)
def l1_sparse(
    problem: Problem,
    *,
    lr: float = 0.01,
    epochs: int = 10,
    penalty: float = 1e-4,
    batch_size: int = 64,
    weight_decay: float = 5e-4,
) -> nn.Module:
    """Source: Jia, Liu, Ram, Yao, Liu, Liu, Sharma, Liu, "Model Sparsity Can Simplify Machine Unlearning",
    NeurIPS 2023.

    Mechanism: continue training on the retained samples with `penalty` times the sum of all weights' magnitudes in
    the loss, falling linearly to 0, so that what only the forgotten samples needed is worn away.

    Data: retained.

    Published: SGD, learning rate 0.01, 10 epochs, batches of 256, momentum 0.9, weight decay 5e-4; the penalty is
    chosen for each experiment (between 1e-6 and 1e-4 in the comparison of Fan et al., ICLR 2024).

    Departures: evaluation mode, so that the statistics of batch norm stay fixed and dropout is off, where the
    publication trains in training mode; the penalty falls with every step, where the released code lowers it once
    an epoch; batches of 64, so that small data sets get enough steps; no augmentation.
    """
    if not penalty >= 0:
        raise InvalidRequest(f"penalty={penalty!r}; allowed is a number of at least 0")
    model = problem.copy()
    parameters = [p for p in model.parameters() if p.requires_grad]
    total, step = number_of_batches(problem.retain, size=batch_size, epochs=epochs), count()

    def loss(batch: Batch) -> Tensor:
        strength = penalty * (1 - next(step) / total)
        magnitude = sum((p.abs().sum() for p in parameters), start=parameters[0].new_zeros(()))
        return F.cross_entropy(logits_of(model, batch), batch.labels) + strength * magnitude

    return descend(
        model,
        passes(problem.retain, size=batch_size, epochs=epochs, seed=problem.seed),
        loss,
        lr=lr,
        weight_decay=weight_decay,
        total=total,
        progress=problem.progress,
    )
