"""Train a network that was disturbed on purpose, on what stays."""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import nn

from unsc.logits import logits_of
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.training import descend, number_of_batches, passes


def repaired(
    problem: Problem,
    model: nn.Module,
    *,
    lr: float,
    epochs: int,
    batch_size: int,
    weight_decay: float,
    before_step: Callable[[], None] | None = None,
) -> nn.Module:
    """`model`, trained in place on the retained samples and back in evaluation mode.

    In training mode: the statistics of batch norm are those of weights that are no longer there.
    """
    model.train()
    batches = passes(problem.retain, size=batch_size, epochs=epochs, seed=problem.seed)
    descend(
        model,
        (batch for batch in batches if len(batch) > 1),  # batch norm has no variance of one sample
        lambda batch: F.cross_entropy(logits_of(model, batch), batch.labels),
        lr=lr,
        weight_decay=weight_decay,
        before_step=before_step,
        total=number_of_batches(problem.retain, size=batch_size, epochs=epochs),
        progress=problem.progress,
    )
    return model.eval()
