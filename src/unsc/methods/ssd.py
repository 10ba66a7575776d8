"""Selective synaptic dampening: weights that matter to forgotten data most of all are made smaller."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import ConcatDataset, Dataset

from unsc.datasets import read_batches, size_of
from unsc.errors import InvalidRequest
from unsc.methods.shared.importance import Importance, batch_importance, empirical_fisher
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.search import Range
from unsc.methods.shared.training import number_of_batches

_READ = 64


@method(
    needs=("forget", "retain"),
    search={"alpha": Range(0.5, 20.0, log=True), "dampening": Range(0.05, 5.0, log=True)},
)
def ssd(problem: Problem, *, alpha: float = 10.0, dampening: float = 1.0, batch_size: int = 64) -> nn.Module:
    """Source: Foster, Schoepf, Brintrup, "Fast Machine Unlearning without Retraining Through Selective Synaptic
    Dampening", AAAI 2024.

    Mechanism: a weight whose importance to forgotten data is more than alpha times that to all training data is
    multiplied by min(lambda * I_all / I_forgotten, 1).

    Data: forgotten and retained.

    Published: alpha = 10 and lambda = 1 for ResNet-18 on CIFAR-20 and CIFAR-100 (alpha = 5 for ViT; alpha = 50 and
    lambda = 0.1 for PinsFaceRecognition); importance is the mean over batches of 64 of the squared gradient of the
    batch's mean loss.

    Departures: lambda is called `dampening`. With `batch_size=1` the importance is the diagonal of the empirical Fisher
    information, as in the paper's equations. Forgotten data is part of all data, so that I_forgotten exceeds I_all by
    no more than the ratio of their sizes (but for one batch with some of both): where a tenth of the data is forgotten,
    alpha has to be below 10 to change much, and where methods are given half as many forgotten as retained samples,
    below 3. It is searched for from 0.5 to 20.
    """
    if not alpha >= 0 or not dampening >= 0:
        raise InvalidRequest(f"alpha={alpha}, dampening={dampening}; allowed are numbers of at least 0")
    model = problem.copy()
    of_forgotten = _importance(problem, model, problem.forget, batch_size)
    of_all = _importance(problem, model, ConcatDataset([problem.retain, problem.forget]), batch_size)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name in of_all:
                ours, everyone = of_forgotten[name], of_all[name]
                factor = (dampening * everyone / ours).clamp(max=1)
                p.copy_(torch.where(ours > alpha * everyone, factor * p, p))
    return model


def _importance(problem: Problem, model: nn.Module, dataset: Dataset, size: int) -> Importance:
    measure, step = (batch_importance, size) if size > 1 else (empirical_fisher, _READ)
    everything = torch.arange(size_of(dataset))
    with problem.progress("importance", number_of_batches(dataset, size=step, epochs=1)) as advance:
        return measure(model, read_batches(dataset, everything, size=step), advance)
