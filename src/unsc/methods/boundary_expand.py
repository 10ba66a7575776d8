"""Boundary expanding: forgotten samples go to a class that exists only while unlearning."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.datasets import read
from unsc.errors import UnsupportedModel
from unsc.logits import logits_of
from unsc.methods.shared import head
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
    last = find_head(model, read(problem.forget, [0]), problem.num_classes)
    shadow = _shadow_unit(last, problem.generator())
    with _inputs_of(last) as seen:

        def loss(batch: Batch) -> Tensor:
            seen.clear()
            logits = logits_of(model, batch)
            widened = torch.cat([logits, shadow(seen[-1])], dim=1)
            return F.cross_entropy(widened, torch.full_like(batch.labels, problem.num_classes))

        plan = passes(problem.forget, size=batch_size, epochs=epochs, seed=problem.seed)
        total = number_of_batches(problem.forget, size=batch_size, epochs=epochs)
        descend(nn.ModuleList([model, shadow]), plan, loss, lr=lr, total=total, progress=problem.progress)
    return model


def find_head(model: nn.Module, batch: Batch, num_classes: int) -> nn.Linear:
    """The Linear layer whose output on `batch` is the model's logits."""
    try:
        found = model.get_submodule(head.find_head(model, batch))
    except UnsupportedModel as e:
        raise UnsupportedModel(
            f"no Linear layer of {type(model).__name__} gives its {num_classes} logits, so there is nowhere to add a "
            "shadow class; choose a method that needs no particular last layer, such as boundary_shrink or delete"
        ) from e
    assert isinstance(found, nn.Linear)
    return found


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


@contextmanager
def _inputs_of(layer: nn.Linear) -> Iterator[list[Tensor]]:
    """What `layer` is given, (n, features), at every call while the context lasts."""
    seen: list[Tensor] = []
    handle = layer.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    try:
        yield seen
    finally:
        handle.remove()
