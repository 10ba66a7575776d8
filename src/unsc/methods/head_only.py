"""Control: only the last layer is trained to forget."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

from unsc.batches import Batch, join
from unsc.datasets import read, read_batches, size_of
from unsc.features import Head, find_head, head_inputs
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.search import Range
from unsc.methods.shared.training import descend, endless, number_of_batches, passes
from unsc.targets import pseudo_labels

_BATCH = 256


@method(needs=("forget", "retain"), search={"lr": Range(1e-3, 1e-1, log=True)}, control=True)
def head_only(problem: Problem, *, lr: float = 0.01, batch_size: int = 64, max_passes: int = 50) -> nn.Module:
    """A control: the features stay as they were.

    Mechanism: SGD on the last linear layer alone moves forgotten samples to the most similar class that may be given
    (the paper's pseudo-labels) and keeps retained ones at their labels, until no forgotten training sample is
    classified as what was to be forgotten.

    Data: forgotten and retained.

    Published: no settings.

    Departures: none. All that the layers below know of the forgotten samples is still there, for anyone who fits
    another last layer.
    """
    model = problem.copy()
    found = find_head(model, read(problem.forget, [0]))
    head = found.layer
    forget, retain = (_features(problem, model, found, part) for part in (problem.forget, problem.retain))
    removed = problem.removed(forget.labels)
    targets = pseudo_labels(_scores(head, forget), removed, targets="hard").argmax(dim=1)
    moved = TensorDataset(forget.inputs, targets)
    kept = endless(TensorDataset(retain.inputs, retain.labels), size=batch_size, seed=problem.seed)

    def loss(batch: Batch) -> Tensor:
        stays = next(kept).for_model(head)
        of_retained = F.cross_entropy(head(stays.inputs), stays.labels)
        return F.cross_entropy(head(batch.inputs), batch.labels) + of_retained

    trained = [p.requires_grad for p in head.parameters()]
    head.requires_grad_()
    for turn in range(max_passes):
        predicted = _scores(head, forget).argmax(dim=1, keepdim=True)
        if not removed.gather(1, predicted).any():
            break
        steps = passes(moved, size=batch_size, epochs=1, seed=problem.seed + turn)
        total = number_of_batches(moved, size=batch_size, epochs=1)
        descend(head, steps, loss, lr=lr, total=total, progress=problem.progress)
    for p, was in zip(head.parameters(), trained, strict=True):
        p.requires_grad_(was)
    return model


def _features(problem: Problem, model: nn.Module, head: Head, dataset: Dataset) -> Batch:
    everything = torch.arange(size_of(dataset))
    found = []
    with problem.progress("features", number_of_batches(dataset, size=_BATCH, epochs=1)) as advance:
        for batch in head_inputs(model, head, read_batches(dataset, everything, size=_BATCH)):
            found.append(batch)
            advance()
    return join(found)


@torch.no_grad()
def _scores(head: nn.Module, batch: Batch) -> Tensor:
    parts = (batch[chosen].for_model(head) for chosen in torch.arange(len(batch)).split(_BATCH))
    return torch.cat([head(part.inputs).cpu() for part in parts])
