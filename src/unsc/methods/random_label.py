"""Learn wrong labels for what is to be forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch, join
from unsc.datasets import size_of
from unsc.logits import logits_of
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.search import Range
from unsc.methods.shared.training import descend, endless, number_of_batches, passes


@method(needs=("forget", "retain"), search={"lr": Range(1e-3, 1e-1, log=True), "epochs": Range(1, 20)})
def random_label(problem: Problem, *, lr: float = 0.01, epochs: int = 10, batch_size: int = 64) -> nn.Module:
    """Source: Golatkar, Achille, Soatto, "Eternal Sunshine of the Spotless Net: Selective Forgetting in Deep
    Networks", CVPR 2020; Hayase, Yasutomi, Katoh, "Selective Forgetting of Deep Networks at a Finer Level than
    Samples", arXiv 2020; with retained samples as in Fan et al., ICLR 2024 (see `salun`).

    Mechanism: train on the forgotten samples with random labels, drawn anew each time among the classes they may
    still have, together with the retained samples and their true labels.

    Data: forgotten and retained.

    Published: SGD, 10 epochs, learning rate searched between 1e-3 and 0.1, batches of 256, momentum 0.9, weight
    decay 5e-4, labels drawn among all classes (Fan et al., for CIFAR-10).

    Departures: evaluation mode, so that the statistics of batch norm stay fixed and dropout is off, where the
    publication trains in training mode; no label is a forgotten class or, for records, the true one, which would
    teach what is to be forgotten; every batch holds both kinds of samples in proportion, where the publication
    shuffles them together or passes over one after the other; batches of 64 retained samples, so that small data sets
    get enough steps; no weight decay, so that a mask over weights (`salun`) keeps what it masks.
    """
    return learn_random_labels(problem, problem.copy(), lr=lr, epochs=epochs, batch_size=batch_size)


def learn_random_labels(
    problem: Problem,
    model: nn.Module,
    *,
    lr: float,
    epochs: int,
    batch_size: int,
    before_step: Callable[[], None] | None = None,
) -> nn.Module:
    """Train `model`, in place, on relabelled and retained samples; `before_step` may change gradients."""
    return descend(
        model,
        relabelled_batches(problem, epochs=epochs, batch_size=batch_size),
        lambda batch: F.cross_entropy(logits_of(model, batch), batch.labels),
        lr=lr,
        before_step=before_step,
        total=number_of_batches(problem.retain, size=batch_size, epochs=epochs),
        progress=problem.progress,
    )


def random_labels(problem: Problem, labels: Tensor, generator: torch.Generator) -> Tensor:
    """Another label for each forgotten sample, int64 (n,), each allowed class equally likely."""
    allowed = ~problem.removed(labels)
    return torch.multinomial(allowed.float(), 1, generator=generator).squeeze(1)


def relabelled_batches(problem: Problem, *, epochs: int, batch_size: int) -> Iterator[Batch]:
    """`epochs` passes over the retained samples, each batch together with forgotten ones under random labels.

    Forgotten samples come in proportion to their number, but at least one in each batch (few records would be rare
    otherwise) and at most as many as retained ones.
    """
    share = size_of(problem.forget) / size_of(problem.retain)
    forgotten = endless(problem.forget, size=min(max(1, round(share * batch_size)), batch_size), seed=problem.seed)
    generator = problem.generator()
    for retained in passes(problem.retain, size=batch_size, epochs=epochs, seed=problem.seed):
        gone = next(forgotten)
        yield join([Batch(gone.inputs, random_labels(problem, gone.labels, generator)), retained])
