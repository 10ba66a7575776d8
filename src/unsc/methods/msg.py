"""Masked small gradients: weights that tell the forgotten from the retained least are drawn anew and trained again."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset, Subset

from unsc.datasets import size_of
from unsc.errors import InvalidRequest, UnsupportedModel
from unsc.logits import logits_of
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.repair import repaired
from unsc.methods.shared.search import Range
from unsc.methods.shared.training import passes


@method(
    needs=("forget", "retain"),
    search={"lr": Range(1e-3, 1e-1, log=True), "epochs": Range(1, 10), "share": Range(0.05, 0.7)},
)
def msg(
    problem: Problem,
    *,
    lr: float = 0.01,
    epochs: int = 5,
    share: float = 0.3,
    others: float = 0.1,
    batch_size: int = 64,
    weight_decay: float = 5e-4,
) -> nn.Module:
    """Source: masked small gradients, an entry to the NeurIPS 2023 unlearning competition, under this name in Cadet,
    Borovykh, Malekzadeh, Ahmadi-Abhari, Haddadi, "Deep Unlearn: Benchmarking Machine Unlearning", 2024.

    Mechanism: the gradient of the loss on as many retained as forgotten samples, minus that on the forgotten ones, is
    summed. In each convolution the `share` of weights for which it is smallest is drawn anew. Then all weights are
    trained on retained samples, the gradients of the weights that were kept being multiplied by `others`.

    Data: forgotten and retained.

    Published: 30 % of the weights, drawn from a normal distribution after He et al. (fan out), the others' gradients
    times 0.1; SGD, learning rate 0.001, momentum 0.9, weight decay 5e-4, 5 epochs, batches of 64; the rate rises over
    the first half of the epochs and falls over the second.

    Departures: a constant learning rate of 0.01 by default, since small data sets give few steps; linear layers but
    the last are reset in networks without convolutions. In training mode, as published: batch norm has to get to know
    the new weights, and retained samples are what it knew before.
    """
    if not 0 <= share <= 1 or others < 0:
        raise InvalidRequest(f"share={share!r}, others={others!r}; give a share from 0 to 1 and a factor of 0 or more")
    model = problem.copy()
    layers = _layers(model)
    chosen = small_gradients(problem, model, layers, share=share, batch_size=batch_size)
    scales: dict[Tensor, Tensor] = {}
    generator = problem.generator()
    with torch.no_grad():
        for weight, mask in chosen.items():
            outputs = len(weight) * weight[0, 0].numel()
            drawn = torch.randn(weight.shape, generator=generator) * (2 / outputs) ** 0.5
            weight.copy_(torch.where(mask, drawn.to(weight), weight))
            scales[weight] = torch.where(mask, 1.0, others).to(weight)

    def scale_gradients() -> None:
        for weight, scale in scales.items():
            if weight.grad is not None:
                weight.grad.mul_(scale)

    return repaired(
        problem,
        model,
        lr=lr,
        epochs=epochs,
        batch_size=batch_size,
        weight_decay=weight_decay,
        before_step=scale_gradients,
    )


def small_gradients(
    problem: Problem, model: nn.Module, weights: list[Tensor], *, share: float, batch_size: int
) -> dict[Tensor, Tensor]:
    """For each of the `weights`, which of its entries are among the `share` with the smallest gradient: bool masks.

    The gradient is that of the summed losses of as many retained as forgotten samples, minus the forgotten ones'.
    """
    sums = [torch.zeros_like(w) for w in weights]
    size = size_of(problem.forget)
    order = torch.randperm(size_of(problem.retain), generator=problem.generator())[:size]
    both: tuple[tuple[float, Dataset], ...] = (
        (1.0, Subset(problem.retain, order.tolist())),
        (-1.0, problem.forget),
    )
    for sign, dataset in both:
        for batch in passes(dataset, size=batch_size, epochs=1, seed=problem.seed):
            there = batch.for_model(model)
            loss = sign * F.cross_entropy(logits_of(model, there), there.labels, reduction="sum")
            for total, gradient in zip(sums, torch.autograd.grad(loss, weights, allow_unused=True), strict=True):
                if gradient is not None:
                    total += gradient
    found = {}
    for weight, total in zip(weights, sums, strict=True):
        mask = torch.zeros(total.numel(), dtype=torch.bool, device=total.device)
        mask[total.abs().flatten().topk(round(share * total.numel()), largest=False).indices] = True
        found[weight] = mask.view_as(total)
    return found


def _layers(model: nn.Module) -> list[Tensor]:
    """The weights that may be drawn anew."""
    convolutions = [m.weight for m in model.modules() if isinstance(m, (nn.Conv1d, nn.Conv2d, nn.Conv3d))]
    linear = [m.weight for m in model.modules() if isinstance(m, nn.Linear)]
    found = [w for w in convolutions or linear[:-1] if w.requires_grad]
    if not found:
        raise UnsupportedModel(
            f"{type(model).__name__} has neither convolutions nor hidden linear layers that train, so there is nothing "
            "to draw anew; choose another method, such as finetune"
        )
    return found
