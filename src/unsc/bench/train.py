"""Train a classifier: `fit` for short runs on tensors, `train` for a protocol, kept epoch by epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset

from unsc.bench.training.batch_norm import reestimate_batch_norm
from unsc.bench.training.checkpoint import identity, load_checkpoint, save_checkpoint
from unsc.bench.training.images import images_of
from unsc.bench.training.protocol import PAPER, Protocol
from unsc.bench.training.random_state import seeded
from unsc.bench.training.run import Epoch, TrainingRun
from unsc.cost import Cost
from unsc.errors import InvalidData, InvalidRequest
from unsc.progress import Progress, quiet

__all__ = ["PAPER", "Epoch", "Protocol", "Trained", "fit", "reestimate_batch_norm", "train"]


def fit(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    epochs: int,
    lr: float = 0.1,
    batch_size: int = 128,
    weight_decay: float = 5e-4,
    seed: int = 0,
    progress: Progress = quiet,
) -> nn.Module:
    """Train `model` in place on `images` (n, ...) and `labels` (n,) with one cycle of the learning rate.

    It is left in evaluation mode. Nothing is kept on disk: `train` is for runs that may be interrupted.
    """
    generator = torch.Generator().manual_seed(seed)
    batches = (len(images) - 1) // batch_size + 1
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=weight_decay, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=epochs * batches, cycle_momentum=False)
    model.train()
    with progress("training", epochs * batches) as advance:
        for _ in range(epochs):
            for chosen in torch.randperm(len(images), generator=generator).split(batch_size):
                loss = F.cross_entropy(model(images[chosen]), labels[chosen])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                advance()
    return model.eval()


@dataclass(frozen=True)
class Trained:
    """A trained network, in evaluation mode, and the numbers of each epoch."""

    model: nn.Module
    history: tuple[Epoch, ...]

    @property
    def cost(self) -> Cost:
        """The time of all epochs, those before an interruption included."""
        worked = [epoch.cpu_seconds for epoch in self.history]
        known = [seconds for seconds in worked if seconds is not None]
        return Cost(
            sum(epoch.seconds for epoch in self.history), None, sum(known) if len(known) == len(worked) else None
        )


def train(
    model: nn.Module,
    dataset_train: Dataset,
    dataset_validation: Dataset | None,
    protocol: Protocol,
    *,
    seed: int = 0,
    checkpoint: Path | None = None,
    progress: Progress = quiet,
    log: Callable[[str], object] = lambda line: None,
) -> Trained:
    """Train `model` in place by `protocol`, and `log` a line for every epoch.

    With a `checkpoint` file each epoch is kept. The same call after an interruption resumes from there, and ends with
    the same weights, bit for bit, as a run that was never interrupted (on the same machine and number of threads);
    it returns at once if training was finished. Networks with both dropout and batch norm have their running
    statistics estimated again with dropout off after each epoch (`reestimate_batch_norm`).
    """
    if protocol.patience is not None and dataset_validation is None:
        raise InvalidRequest(f"patience {protocol.patience} needs validation data; give some, or patience=None")
    data = images_of(dataset_train)
    if len(data) < 2:
        raise InvalidData("there is 1 training sample; give at least 2")
    held_out = None if dataset_validation is None else images_of(dataset_validation)
    run = TrainingRun(model, data, held_out, protocol)
    # On a CPU, convolutions are about 1.4 times as fast with the channels last.
    model.to(memory_format=run.format)  # type: ignore[call-overload]
    try:
        with seeded(seed, run.device):
            _remaining_epochs(run, seed, checkpoint, progress, log)
        if run.best is not None:
            model.load_state_dict(run.best)
    finally:
        model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    return Trained(model.eval(), tuple(run.history))


def _remaining_epochs(
    run: TrainingRun, seed: int, checkpoint: Path | None, progress: Progress, log: Callable[[str], object]
) -> None:
    """The epochs that are still to be done."""
    mine = identity(run.model, run.train, run.validation, run.protocol, seed) if checkpoint is not None else {}
    if checkpoint is not None and (earlier := load_checkpoint(checkpoint, mine)) is not None:
        run.restore(earlier)
        log(f"resuming from {checkpoint} after epoch {len(run.history)}")
    with progress("training", (run.protocol.epochs - len(run.history)) * run.steps_per_epoch) as advance:
        while not run.finished:
            log(str(run.epoch(advance)))
            if checkpoint is not None:
                save_checkpoint(checkpoint, {"identity": mine, **run.state()})
