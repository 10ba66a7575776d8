"""What a network says of samples, and by what margin it is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unsc.batches import Batch, HasSamples
from unsc.logits import shared_logits


@dataclass(frozen=True)
class Scores:
    """What a network says of samples: `logits` (n, classes), beside their `labels` (n,)."""

    logits: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device) -> Scores:
        return Scores(self.logits.to(device), self.labels.to(device))

    def losses(self) -> Tensor:
        """The negative log-probability of the label, float64 (n,)."""
        return -self.logits.double().log_softmax(dim=1).gather(1, self.labels[:, None]).flatten()

    def accuracy(self) -> float:
        """Percent of the samples whose best score is that of their label."""
        return 100 * (self.logits.argmax(dim=1) == self.labels).double().mean().item()


def scores_of(model: nn.Module, samples: HasSamples) -> Scores:
    """What `model` says of samples, on its device."""
    logits = shared_logits(model, samples)
    return Scores(logits, samples.labels.to(logits.device))


NO_SCORES = Scores(torch.empty(0, 0), torch.empty(0, dtype=torch.long))


def scores_of_all(model: nn.Module, batches: Sequence[Batch]) -> Scores:
    """What `model` says of the samples of several batches, without a copy that has all of them."""
    if not batches:
        return NO_SCORES
    parts = [scores_of(model, batch) for batch in batches]
    return Scores(torch.cat([x.logits for x in parts]), torch.cat([x.labels for x in parts]))


def margins(scores: Scores) -> Tensor:
    """The label's score minus the best other one, float32 (n,): above 0 where the network is right."""
    logits, own = scores.logits.float(), scores.labels[:, None]
    return logits.gather(1, own).flatten() - logits.scatter(1, own, -torch.inf).amax(dim=1)


def with_margins(scores: Scores, wanted: Tensor) -> Tensor:
    """Scores (n, classes) whose margins are `wanted` (n,): the label's own moves, the others stay."""
    logits, own = scores.logits.float(), scores.labels[:, None]
    best_other = logits.scatter(1, own, -torch.inf).amax(dim=1)
    return logits.scatter(1, own, (best_other + wanted)[:, None])
