"""Descent on what stays and ascent on what goes, in one loss."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.errors import InvalidRequest
from unsc.logits import logits_of
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.search import Range
from unsc.methods.shared.training import bounded, descend, endless, number_of_batches, passes


@method(
    needs=("forget", "retain"),
    search={
        "lr": Range(1e-3, 1e-1, log=True),
        "epochs": Range(1, 10),
        "forget_weight": Range(1e-4, 0.5, log=True),
    },
)
def neggrad_plus(
    problem: Problem,
    *,
    lr: float = 0.01,
    epochs: int = 5,
    forget_weight: float = 0.01,
    batch_size: int = 64,
    weight_decay: float = 5e-4,
    limit: float = 0.5,
) -> nn.Module:
    """Source: Kurmanji, Triantafillou, Hayes, Triantafillou, "Towards Unbounded Machine Unlearning", NeurIPS 2023.

    Mechanism: SGD on `(1 - forget_weight)` times the retained loss minus `forget_weight` times the forgotten loss,
    with a batch of each in every step.

    Data: forgotten and retained.

    Published: SGD, learning rate 0.01, momentum 0.9; a retained weight of 0.95 (forget_weight 0.05) for 10 epochs
    with weight decay 0.1 on small data sets, and of 0.9999 (forget_weight 1e-4) for 5 epochs with weight decay 5e-4
    on large ones.

    Departures: evaluation mode, so that the statistics of batch norm stay fixed and dropout is off, where the
    publication trains in training mode; the weight is given from the forgotten side, where its orders of magnitude
    matter; 0.01 by default, between the two published ones, since 0.05 ruins small networks whose batch norm is fixed;
    epochs and weight decay as published for large data sets, with a decay to 0 as usual, not to the original weights.
    A forgotten sample whose loss has reached `limit` times that of guessing is left alone, where the published loss
    has no upper bound.
    """
    if not 0 <= forget_weight <= 1:
        raise InvalidRequest(f"forget_weight={forget_weight!r}; allowed is a share from 0 to 1")
    model = problem.copy()
    forgotten = endless(problem.forget, size=batch_size, seed=problem.seed)

    def loss(retained: Batch) -> Tensor:
        gone = next(forgotten).for_model(model)
        down = F.cross_entropy(logits_of(model, retained), retained.labels)
        of_each = F.cross_entropy(logits_of(model, gone), gone.labels, reduction="none")
        up = bounded(of_each, problem.num_classes, limit)
        return (1 - forget_weight) * down - forget_weight * up

    return descend(
        model,
        passes(problem.retain, size=batch_size, epochs=epochs, seed=problem.seed),
        loss,
        lr=lr,
        weight_decay=weight_decay,
        total=number_of_batches(problem.retain, size=batch_size, epochs=epochs),
        progress=problem.progress,
    )
