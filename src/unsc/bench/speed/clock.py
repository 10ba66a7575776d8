"""Time, measured a few times; what is compared is measured in turn, so that both see the same machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from unsc.batches import Batch
from unsc.bench.training.images import images_of
from unsc.bench.training.protocol import Protocol
from unsc.bench.training.run import TrainingRun
from unsc.layout import channels_last
from unsc.logits import logits_of
from unsc.models import working_copy


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@contextmanager
def threads(count: int) -> Generator[None, None, None]:
    """So many threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def epoch_seconds(model: nn.Module, train: TensorDataset, protocol: Protocol, *, batches: int) -> float:
    """An epoch of training a copy of `model`, measured on so many batches after two others, and scaled to all."""
    copy = working_copy(model).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    few = images_of(TensorDataset(*(t[: batches * protocol.batch_size] for t in train.tensors)))
    warm_up = images_of(TensorDataset(*(t[: 2 * protocol.batch_size] for t in train.tensors)))
    TrainingRun(copy, warm_up, None, protocol).epoch(lambda: None)
    run = TrainingRun(copy, few, None, protocol)
    spent = run.epoch(lambda: None).seconds
    return spent / run.steps_per_epoch * -(-len(train) // protocol.batch_size)


def sgd_seconds(model: nn.Module, batch: Batch, *, repeats: int) -> float:
    """A plain SGD step on a batch: forward, backward, update; the mean over so many after one other."""
    copy = working_copy(model)
    channels_last(copy, batch)  # as ours are
    optimizer = torch.optim.SGD(copy.parameters(), lr=1e-4)

    def step() -> None:
        loss = F.cross_entropy(logits_of(copy, batch), batch.labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    step()
    return seconds(lambda: [step() for _ in range(repeats)]) / repeats
