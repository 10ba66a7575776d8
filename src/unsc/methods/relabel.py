"""Learn wrong labels for the forgotten samples alone, without retained samples to preserve the rest."""

from __future__ import annotations

import torch.nn.functional as F
from torch import nn

from unsc.batches import Batch
from unsc.logits import logits_of
from unsc.methods.random_label import random_labels
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.search import Range
from unsc.methods.shared.training import descend, number_of_batches, passes


@method(needs=("forget",), search={"lr": Range(1e-5, 1e-1, log=True), "epochs": Range(1, 20)})
def relabel(problem: Problem, *, lr: float = 1e-3, epochs: int = 10, batch_size: int = 64) -> nn.Module:
    """Source: Hayase, Yasutomi, Katoh, "Selective Forgetting of Deep Networks at a Finer Level than Samples", arXiv
    2020, as Chen, Zhu, Yu, Zhou, "Machine Unlearning via Null Space Calibration", IJCAI 2024, compare with it ("RL",
    row III of their ablation).

    Mechanism: train on the forgotten samples alone, with random labels among the classes they may still have.

    Data: forgotten.

    Published: no settings are given for this comparison.

    Departures: evaluation mode, so that the statistics of batch norm stay fixed and dropout is off; labels are drawn
    anew each time, and none is a forgotten class or, for records, the true one.
    """
    model, generator = problem.copy(), problem.generator()
    batches = passes(problem.forget, size=batch_size, epochs=epochs, seed=problem.seed)
    return descend(
        model,
        (Batch(batch.inputs, random_labels(problem, batch.labels, generator)) for batch in batches),
        lambda batch: F.cross_entropy(logits_of(model, batch), batch.labels),
        lr=lr,
        total=number_of_batches(problem.forget, size=batch_size, epochs=epochs),
        progress=problem.progress,
    )
