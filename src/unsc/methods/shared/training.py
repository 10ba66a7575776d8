"""The loop that methods with gradients share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from unsc.batches import Batch
from unsc.datasets import read_batches, size_of
from unsc.errors import Diverged
from unsc.progress import Progress, quiet


def passes(dataset: Dataset, *, size: int, epochs: int, seed: int) -> Iterator[Batch]:
    """The data set `epochs` times in batches of `size`, in another order each time."""
    everything = torch.arange(size_of(dataset))
    return chain.from_iterable(
        read_batches(dataset, everything, size=size, seed=1_000_003 * seed + epoch) for epoch in range(epochs)
    )


def endless(dataset: Dataset, *, size: int, seed: int) -> Iterator[Batch]:
    """Batches of the data set without end, to go with passes over another one."""
    return passes(dataset, size=size, epochs=2**31, seed=seed)


def number_of_batches(dataset: Dataset, *, size: int, epochs: int) -> int:
    return epochs * -(-size_of(dataset) // size)


def bounded(loss: Tensor, num_classes: int, limit: float) -> Tensor:
    """The mean of samples' losses (n,) that are to be raised, each cut off at `limit` times that of guessing.

    Without a bound a few samples that are long forgotten dominate the loss, and the network diverges.
    """
    return loss.clamp(max=limit * math.log(num_classes)).mean()


def descend(
    model: nn.Module,
    batches: Iterable[Batch],
    loss: Callable[[Batch], Tensor],
    *,
    lr: float,
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    before_step: Callable[[], None] | None = None,
    total: int = 0,
    progress: Progress = quiet,
) -> nn.Module:
    """SGD on `loss(batch)` over `batches`, changing the parameters of `model` that require gradients, in place.

    `before_step` may change gradients. A loss that is not finite raises `Diverged`.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=lr, momentum=momentum, weight_decay=weight_decay)
    with progress("unlearning", total) as advance:
        for step, batch in enumerate(batches):
            value = loss(batch.for_model(model))
            if not math.isfinite(value.item()):
                raise Diverged(f"the loss became {value.item()} at step {step}")
            optimizer.zero_grad()
            value.backward()
            if before_step is not None:
                before_step()
            optimizer.step()
            advance()
    return model
