"""SCRUB: a student that disobeys its teacher on forgotten samples and obeys it on all others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, repeat
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.logits import logits_of
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.search import Range
from unsc.methods.shared.training import bounded, descend, number_of_batches, passes

T = TypeVar("T")


@method(
    needs=("forget", "retain"),
    search={"lr": Range(1e-5, 1e-2, log=True), "epochs": Range(2, 10), "max_epochs": Range(1, 5)},
)
def scrub(
    problem: Problem,
    *,
    lr: float = 5e-4,
    epochs: int = 3,
    max_epochs: int = 2,
    alpha: float = 0.001,
    gamma: float = 0.99,
    temperature: float = 4.0,
    batch_size: int = 128,
    forget_batch_size: int = 32,
    weight_decay: float = 5e-4,
    limit: float = 0.5,
) -> nn.Module:
    """M. Kurmanji, P. Triantafillou, J. Hayes, E. Triantafillou: Towards Unbounded Machine Unlearning. NeurIPS 2023.

    Mechanism: epochs that raise the divergence from the original on forgotten samples take turns with epochs that
    lower `alpha` times the divergence plus `gamma` times the cross entropy on retained ones; after `max_epochs`
    only the latter continue.

    Data: forgotten and retained samples.

    Published: SGD with momentum 0.9 and weight decay 5e-4, learning rate 5e-4, 3 epochs, the first 2 with a
    maximising one (msteps), alpha 0.001, gamma 0.99, temperature 4, batches of 128 retained and 32 forgotten
    samples (the authors' code for whole CIFAR-10; 10 epochs with Adam, alpha 0.5, gamma 1 and temperature 2 for
    its small subsets).

    Departures: the learning rate is constant; the published decay sets in after epoch 3. Checkpoints are not
    rewound (SCRUB+R), which needs held-out samples like the forgotten ones. The network stays in evaluation
    mode, so that batches of forgotten samples do not move its batch-norm statistics; the publication's is in
    training mode, where a student with batch norm differs from its teacher at once. Here both are equal at first
    and their divergence has no gradient there, so the first maximising epoch does next to nothing. A sample whose
    divergence has reached `limit` times the loss of guessing is left alone, where the published one has no bound.
    """
    original, model = problem.copy(), problem.copy()

    def distance(batch: Batch, logits: Tensor) -> Tensor:
        """Of each sample, (n,), in nats."""
        with torch.no_grad():
            wanted = (logits_of(original, batch) / temperature).softmax(dim=1)
        return F.kl_div((logits / temperature).log_softmax(dim=1), wanted, reduction="none").sum(dim=1)

    def disobey(batch: Batch) -> Tensor:
        return -(temperature**2) * bounded(distance(batch, logits_of(model, batch)), problem.num_classes, limit)

    def obey(batch: Batch) -> Tensor:
        logits = logits_of(model, batch)
        return gamma * F.cross_entropy(logits, batch.labels) + alpha * temperature**2 * distance(batch, logits).mean()

    n = number_of_batches(problem.forget, size=forget_batch_size, epochs=1)
    m = number_of_batches(problem.retain, size=batch_size, epochs=1)
    turns = [(n if epoch < max_epochs else 0, m) for epoch in range(epochs)]
    # One run with one optimizer, as published: momentum is carried from one kind of epoch to the other.
    batches = in_turns(
        passes(problem.forget, size=forget_batch_size, epochs=epochs, seed=problem.seed),
        passes(problem.retain, size=batch_size, epochs=epochs, seed=problem.seed),
        turns,
    )
    losses = in_turns(repeat(disobey), repeat(obey), turns)
    return descend(
        model,
        batches,
        lambda batch: next(losses)(batch),
        lr=lr,
        weight_decay=weight_decay,
        total=sum(map(sum, turns)),
        progress=problem.progress,
    )


def in_turns(first: Iterable[T], second: Iterable[T], turns: Iterable[tuple[int, int]]) -> Iterator[T]:
    """For each turn (n, m), the next `n` of `first` and then the next `m` of `second`."""
    first, second = iter(first), iter(second)
    for n, m in turns:
        yield from islice(first, n)
        yield from islice(second, m)
