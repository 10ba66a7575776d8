"""Random labels, learned only by the weights that matter most for what is to be forgotten."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.errors import InvalidRequest
from unsc.logits import logits_of
from unsc.methods.random_label import learn_random_labels
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.search import Range
from unsc.methods.shared.training import number_of_batches, passes


@method(
    needs=("forget", "retain"),
    search={"lr": Range(1e-3, 1e-1, log=True), "epochs": Range(1, 20), "share": Range(0.1, 0.9)},
)
def salun(
    problem: Problem, *, lr: float = 0.01, epochs: int = 10, share: float = 0.5, batch_size: int = 64
) -> nn.Module:
    """Source: Fan, Liu, Zhang, Wong, Wei, Liu, "SalUn: Empowering Machine Unlearning via Gradient-based Weight
    Saliency in Both Image Classification and Generation", ICLR 2024.

    Mechanism: random labels (`random_label`), learned by the `share` of weights for which the gradient of the
    forgotten samples' loss at the original network is largest; the other weights stay as they are.

    Data: forgotten and retained.

    Published: half of the weights, SGD, 10 epochs, learning rate 0.1 in the released command (searched over orders
    of magnitude in the publication), batches of 256, momentum 0.9, weight decay 5e-4.

    Departures: those of `random_label`, which it equals with share=1; no weight decay, since the optimizer would
    move masked weights by it; the saliency is the gradient at the original weights, as the publication defines it,
    where the released code takes ascent steps meanwhile.
    """
    if not 0 <= share <= 1:
        raise InvalidRequest(f"share={share!r}; allowed is a share of weights from 0 to 1")
    model = problem.copy()
    masks = salient(problem, model, share=share, batch_size=batch_size)

    def keep_masked_weights() -> None:
        for p, mask in masks.items():
            if p.grad is not None:
                p.grad.masked_fill_(~mask, 0)

    return learn_random_labels(
        problem, model, lr=lr, epochs=epochs, batch_size=batch_size, before_step=keep_masked_weights
    )


def salient(problem: Problem, model: nn.Module, *, share: float, batch_size: int) -> dict[nn.Parameter, Tensor]:
    """For each parameter that trains, which of its entries are among the `share` of all with the largest gradient."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    sums = [torch.zeros_like(p) for p in parameters]
    with problem.progress(
        "finding salient weights", number_of_batches(problem.forget, size=batch_size, epochs=1)
    ) as advance:
        for batch in passes(problem.forget, size=batch_size, epochs=1, seed=problem.seed):
            there = batch.for_model(model)
            loss = F.cross_entropy(logits_of(model, there), there.labels, reduction="sum")
            for total, gradient in zip(sums, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True):
                if gradient is not None:
                    total += gradient
            advance()
    sizes = torch.cat([total.abs().flatten() for total in sums])
    chosen = torch.zeros_like(sizes, dtype=torch.bool)
    chosen[sizes.topk(round(share * len(sizes))).indices] = True
    parts = chosen.split([p.numel() for p in parameters])
    return {p: part.view_as(p) for p, part in zip(parameters, parts, strict=True)}
