"""DELETE: the original network is its own teacher, with the forgotten classes masked."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.logits import logits_of
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.search import Range
from unsc.methods.shared.training import descend, number_of_batches, passes
from unsc.targets import pseudo_labels


@method(needs=("forget",), search={"lr": Range(1e-5, 1e-2, log=True), "epochs": Range(1, 20)})
def delete(problem: Problem, *, lr: float = 1e-3, epochs: int = 20, batch_size: int = 128) -> nn.Module:
    """Y. Zhou, D. Zheng, Q. Mo, R. Lu, K.-Y. Lin, W.-S. Zheng: Decoupled Distillation to Erase: A General Unlearning
    Method for Any Class-centric Tasks. CVPR 2025.

    Mechanism: on forgotten samples the network is distilled from the original whose logits of the forgotten
    classes are set to minus infinity, so that those classes are given up and the others keep their proportions.

    Data: forgotten samples alone.

    Published: SGD with momentum 0.9, learning rate 1e-3, 20 epochs, batches of 128 (the authors' code;
    CIFAR-10 and ResNet-18).

    Departures: with several forgotten classes all of them are masked; the published code masks each sample's own
    label, so that one forgotten class may go to another. For records the label alone is masked, as published. The
    network stays in evaluation mode, so that few samples of one class do not move its batch-norm statistics; the
    publication's is in training mode.
    """
    original, model = problem.copy(), problem.copy()

    def loss(batch: Batch) -> Tensor:
        with torch.no_grad():
            wanted = pseudo_labels(logits_of(original, batch), problem.removed(batch.labels), targets="soft")
        return F.kl_div(logits_of(model, batch).log_softmax(dim=1), wanted, reduction="batchmean")

    plan = passes(problem.forget, size=batch_size, epochs=epochs, seed=problem.seed)
    total = number_of_batches(problem.forget, size=batch_size, epochs=epochs)
    return descend(model, plan, loss, lr=lr, total=total, progress=problem.progress)
