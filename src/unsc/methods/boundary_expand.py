"""Boundary expanding: forgotten samples go to a class that exists only while unlearning."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.datasets import read
from unsc.features import find_head, inputs_of_layers
from unsc.logits import logits_of
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.search import Range
from unsc.methods.shared.training import descend, number_of_batches, passes


@method(needs=("forget",), kinds=("classes",), search={"lr": Range(1e-5, 1e-2, log=True), "epochs": Range(1, 20)})
def boundary_expand(problem: Problem, *, lr: float = 1e-5, epochs: int = 10, batch_size: int = 64) -> nn.Module:
    """M. Chen, W. Gao, G. Liu, K. Peng, C. Wang: Boundary Unlearning: Rapid Forgetting of Deep Networks via
    Shifting the Decision Boundary. CVPR 2023.

    Mechanism: the last layer gets one more output, a shadow class; the network is trained to put all forgotten
    samples there, and the output is removed again.

    Data: forgotten samples alone. Whole classes only: records would take the rest of their classes along to the
    shadow class, which sees nothing that tells them apart.

    Published: SGD with momentum 0.9, learning rate 1e-5, 10 epochs, batches of 64, the shadow unit drawn by
    Xavier's normal rule with bias 0 (the authors' code; CIFAR-10).

    Departures: the shadow unit reads the last layer's input beside the layer instead of in a wider copy of it,
    which is the same function and leaves the architecture alone; the layer must be a Linear whose output is the
    logits. The network stays in evaluation mode, so that few samples of one class do not move its batch-norm
    statistics; the publication's is in training mode.
    """
    model = problem.copy()
    head = find_head(model, read(problem.forget, [0]))
    shadow = _shadow_unit(head.layer, problem.generator())
    with inputs_of_layers(model, [head.path]) as seen:

        def loss(batch: Batch) -> Tensor:
            logits = logits_of(model, batch)
            widened = torch.cat([logits, shadow(seen[head.path])], dim=1)
            return F.cross_entropy(widened, torch.full_like(batch.labels, problem.num_classes))

        plan = passes(problem.forget, size=batch_size, epochs=epochs, seed=problem.seed)
        total = number_of_batches(problem.forget, size=batch_size, epochs=epochs)
        descend(nn.ModuleList([model, shadow]), plan, loss, lr=lr, total=total, progress=problem.progress)
    return model


def _shadow_unit(head: nn.Linear, generator: torch.Generator) -> nn.Linear:
    """One more unit for `head`, drawn as if all units had been drawn anew."""
    like = head.weight
    # Made on the meta device, so that PyTorch's own initialisation draws no random numbers.
    unit = nn.Linear(head.in_features, 1, bias=head.bias is not None, device="meta", dtype=like.dtype)
    unit = unit.to_empty(device=like.device)
    scale = (2 / (head.in_features + head.out_features + 1)) ** 0.5
    with torch.no_grad():
        unit.weight.copy_(scale * torch.randn(1, head.in_features, generator=generator))
        if unit.bias is not None:
            unit.bias.zero_()
    return unit
