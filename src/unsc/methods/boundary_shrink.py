"""Boundary shrink: forgotten samples take the class across their nearest decision boundary."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch, describe
from unsc.errors import InvalidData
from unsc.logits import logits_of
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.search import Range
from unsc.methods.shared.training import descend, number_of_batches, passes
from unsc.targets import pseudo_labels


@method(
    needs=("forget",),
    search={"lr": Range(1e-5, 1e-2, log=True), "epochs": Range(1, 20), "bound": Range(0.02, 1.0, log=True)},
)
def boundary_shrink(
    problem: Problem, *, lr: float = 1e-5, epochs: int = 10, bound: float = 0.1, batch_size: int = 64
) -> nn.Module:
    """M. Chen, W. Gao, G. Liu, K. Peng, C. Wang: Boundary Unlearning: Rapid Forgetting of Deep Networks via
    Shifting the Decision Boundary. CVPR 2023.

    Mechanism: each forgotten sample is moved by one signed-gradient step that raises its loss, and the network is
    trained to give the sample itself the class that the original gives the moved one.

    Data: forgotten samples alone, as one floating point tensor.

    Published: SGD with momentum 0.9, learning rate 1e-5, 10 epochs, batches of 64, a step of 0.1 in pixels of
    [0, 1] (the authors' code; CIFAR-10).

    Departures: where the step does not leave the removed classes, the best-scored class that stays is taken, so
    that no sample keeps its label or moves to another forgotten class. `bound` is in units of the inputs as the
    data set gives them, and moved inputs are neither clipped nor rounded to 8 bits: how inputs were scaled is
    not known here. The network stays in evaluation mode, so that few samples of one class do not move its
    batch-norm statistics; the publication's is in training mode.
    """
    original, model = problem.copy(), problem.copy()

    def loss(batch: Batch) -> Tensor:
        return F.cross_entropy(logits_of(model, batch), neighbours(original, batch, problem.removed, bound))

    plan = passes(problem.forget, size=batch_size, epochs=epochs, seed=problem.seed)
    total = number_of_batches(problem.forget, size=batch_size, epochs=epochs)
    return descend(model, plan, loss, lr=lr, total=total, progress=problem.progress)


def neighbours(original: nn.Module, batch: Batch, removed: Callable[[Tensor], Tensor], bound: float) -> Tensor:
    """The class int64 (n,) that each sample gets from `original` after one step of `bound` against its label.

    `removed(labels)` says bool (n, classes) which classes are not to be taken.
    """
    inputs = batch.inputs
    if not (torch.is_tensor(inputs) and inputs.is_floating_point()):
        raise InvalidData(
            f"the model is called with {describe(inputs)}; boundary_shrink moves inputs along a gradient, which takes "
            "one floating point tensor: choose a method that leaves inputs as they are, such as delete"
        )
    inputs = inputs.detach().clone().requires_grad_()
    # A sum, not a mean: how far a sample goes must not depend on its batch where gradients are almost zero.
    loss = F.cross_entropy(logits_of(original, Batch(inputs, batch.labels)), batch.labels, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, inputs)
    with torch.no_grad():
        moved = logits_of(original, Batch(inputs + bound * gradient.sign(), batch.labels))
    return pseudo_labels(moved, removed(batch.labels), targets="hard").argmax(dim=1)
