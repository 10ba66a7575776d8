"""One training run: epoch after epoch, each kept, so that a killed run resumes where it was."""

from __future__ import annotations

import copy
import math
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unsc.batches import Batch
from unsc.bench.training.augment import augment
from unsc.bench.training.batch_norm import dropout_shifts_batch_norm, reestimate_batch_norm
from unsc.bench.training.images import Images
from unsc.bench.training.protocol import Protocol
from unsc.bench.training.random_state import random_state, set_random_state
from unsc.errors import Diverged
from unsc.logits import accuracy
from unsc.progress import Advance


@dataclass(frozen=True)
class Epoch:
    """The numbers of one epoch."""

    number: int
    """Counted from 1."""
    lr: float
    """The learning rate of its last step."""
    loss: float
    """Mean cross-entropy in nats of the training samples, each measured before its step."""
    train_acc: float
    validation_acc: float | None
    seconds: float
    cpu_seconds: float | None = None
    """Time that all threads were at work; None in old checkpoints, which lack it."""

    def __str__(self) -> str:
        held_out = "" if self.validation_acc is None else f", validation {100 * self.validation_acc:.2f} %"
        return (
            f"epoch {self.number}: loss {self.loss:.4f}, train {100 * self.train_acc:.2f} %{held_out}, "
            f"lr {self.lr:.2g}, {self.seconds:.1f} s"
        )


@dataclass
class TrainingRun:
    """A network in training. Draws from torch's global generators."""

    model: nn.Module
    train: Images
    validation: Images | None
    protocol: Protocol
    history: list[Epoch] = field(default_factory=list)
    best: dict[str, Tensor] | None = None
    """The weights of the epoch with the best validation accuracy, where the protocol wants them."""

    def __post_init__(self) -> None:
        self.device = next(self.model.parameters()).device
        self.optimizer = torch.optim.SGD(
            [p for p in self.model.parameters() if p.requires_grad],
            lr=self.protocol.lr,
            momentum=self.protocol.momentum,
            weight_decay=self.protocol.weight_decay,
        )
        self.format = torch.channels_last if self.train.images.dim() == 4 else torch.contiguous_format
        sample = torch.randperm(len(self.train), generator=torch.Generator().manual_seed(0))[:2048]
        self.sample = self.train.at(sample, self.device)[0] if dropout_shifts_batch_norm(self.model) else None

    @property
    def steps_per_epoch(self) -> int:
        return len(self._batches(torch.arange(len(self.train))))

    @property
    def finished(self) -> bool:
        """All epochs are done, or as many without a better validation accuracy as the protocol allows."""
        stale = len(self.history) - self._best_epoch()
        return len(self.history) >= self.protocol.epochs or stale >= (self.protocol.patience or math.inf)

    def epoch(self, advance: Advance) -> Epoch:
        """Train on every sample once, then measure."""
        began, worked = time.perf_counter(), time.process_time()
        self.model.train()
        losses, hits, seen, rate = 0.0, 0, 0, 0.0
        first = len(self.history) * self.steps_per_epoch
        for step, positions in enumerate(self._batches(torch.randperm(len(self.train))), start=first):
            rate = self.protocol.rate(step, self.steps_per_epoch)
            loss, correct = self._step(positions, rate)
            if not math.isfinite(loss):
                raise Diverged(f"the loss became {loss} at step {step}; train with a learning rate below {rate:.2g}")
            losses, hits, seen = losses + loss * len(positions), hits + correct, seen + len(positions)
            advance()
        if self.sample is not None:
            # Training does not look at these statistics, so that it continues as it would have.
            reestimate_batch_norm(self.model, self.sample)
        held_out = None if self.validation is None else self._accuracy(self.validation)
        spent = time.perf_counter() - began, time.process_time() - worked
        done = Epoch(len(self.history) + 1, rate, losses / seen, hits / seen, held_out, *spent)
        self.history.append(done)
        if self.protocol.patience is not None and self._best_epoch() == done.number:
            self.best = copy.deepcopy(self.model.state_dict())
        return done

    def state(self) -> dict[str, Any]:
        """All that the epochs to come depend on. The learning rate is a function of the step and needs no state."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "random": random_state(self.device),
            "history": [asdict(epoch) for epoch in self.history],
            "best": self.best,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        set_random_state(state["random"], self.device)
        self.history = [Epoch(**epoch) for epoch in state["history"]]
        self.best = state["best"]

    def _step(self, positions: Tensor, rate: float) -> tuple[float, int]:
        images, labels = self.train.at(positions, self.device)
        images = augment(images, self.protocol.augmentation).contiguous(memory_format=self.format)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        with self._precision():
            logits = self.model(images)
            loss = F.cross_entropy(logits, labels)  # autocast computes it in float32
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item(), int((logits.argmax(dim=1) == labels).sum())

    def _accuracy(self, held_out: Images) -> float:
        """The share, 0 to 1, of the images that are classified correctly."""
        self.model.eval()
        hits = 0
        for positions in torch.arange(len(held_out)).split(256):
            images, labels = held_out.at(positions, self.device)
            with self._precision():
                percent = accuracy(self.model, Batch(images.contiguous(memory_format=self.format), labels))
            hits += round(percent / 100 * len(labels))
        return hits / len(held_out)

    def _precision(self) -> torch.autocast:
        """Inside the block the network computes in the protocol's precision."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.protocol.precision == "bfloat16")

    def _batches(self, order: Tensor) -> list[Tensor]:
        """`order` in batches; a last one of a single sample is left out, for which batch norm has no variance."""
        return [batch for batch in order.split(self.protocol.batch_size) if len(batch) > 1]

    def _best_epoch(self) -> int:
        """The first epoch with the best validation accuracy; 0 before any."""
        accuracies = [epoch.validation_acc or 0.0 for epoch in self.history]
        return accuracies.index(max(accuracies)) + 1 if accuracies else 0
