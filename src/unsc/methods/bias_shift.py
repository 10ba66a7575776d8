"""Control: the forgotten classes' biases are lowered."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unsc.datasets import read, read_batches, size_of
from unsc.features import find_head
from unsc.logits import logits_of
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.training import number_of_batches

_BATCH = 256


@method(needs=("forget",), kinds=("classes",), control=True)
@torch.no_grad()
def bias_shift(problem: Problem) -> nn.Module:
    """A control: one number for each forgotten class.

    Mechanism: in the last linear layer each forgotten class's bias is lowered by just enough that no forgotten
    training sample has a higher score for it than for some class that stays.

    Data: forgotten.

    Published: no settings.

    Departures: none. Features, weights and all other logits are those of the original. A layer without biases is
    given some, zero but for the forgotten classes.
    """
    model = problem.copy()
    head = find_head(model, read(problem.forget, [0])).layer
    excess = _excess(problem, model)
    if head.bias is None:
        head.bias = nn.Parameter(head.weight.new_zeros(problem.num_classes))
    head.bias[list(problem.classes)] -= excess.to(head.bias)
    return model


def _excess(problem: Problem, model: nn.Module) -> Tensor:
    """The most by which each forgotten class's score exceeds the best retained one, at least 0: (forgotten,)."""
    forget, gone = problem.forget, list(problem.classes)
    most, scale = torch.zeros(len(gone), dtype=torch.float64), 0.0
    everything = torch.arange(size_of(forget))
    with problem.progress("scores", number_of_batches(forget, size=_BATCH, epochs=1)) as advance:
        for batch in read_batches(forget, everything, size=_BATCH):
            logits = logits_of(model, batch.for_model(model)).double().cpu()
            over = logits[:, gone] - logits[:, problem.kept].max(dim=1, keepdim=True).values
            most = torch.maximum(most, over.max(dim=0).values)
            scale = max(scale, logits.abs().max().item())
            advance()
    return torch.where(most > 0, most + 1e-4 * scale, most)  # more than rounding, so that nothing is left at a tie
