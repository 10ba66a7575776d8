"""Where forgotten samples go: the classes that the original network itself finds most similar."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from unsc.errors import InvalidRequest

Targets = Literal["soft", "hard", "random"]


def pseudo_labels(logits: Tensor, removed: Tensor, *, targets: Targets = "soft") -> Tensor:
    """Target distributions (n, classes) for forgotten samples, from the original network's `logits` (n, classes).

    `removed` (n, classes) is true where a sample must not go: the forgotten classes, or a record's own class.
    `"hard"` is the paper's rule, all mass on the highest score that is left (its second-best class if the
    network was right, its first if it was wrong). `"soft"` keeps the network's relative scores of all that
    are left. `"random"` ignores the network: one class that is left, drawn alike by a fixed seed.
    """
    if targets not in ("soft", "hard", "random"):
        raise InvalidRequest(f"targets={targets!r}; allowed are 'soft', 'hard' and 'random'")
    if removed.all(dim=1).any():
        raise InvalidRequest("no class is left to move a forgotten sample to; retain at least one class")
    left = logits.float().masked_fill(removed, -torch.inf)
    if targets == "hard":
        return F.one_hot(left.argmax(dim=1), logits.shape[1]).float()
    if targets == "random":
        drawn = torch.multinomial((~removed).float().cpu(), 1, generator=torch.Generator().manual_seed(0)).flatten()
        return F.one_hot(drawn.to(logits.device), logits.shape[1]).float()
    return left.softmax(dim=1)


def removed_classes(labels: Tensor, num_classes: int, forget: tuple[int, ...] | None) -> Tensor:
    """The mask for `pseudo_labels`: the classes `forget`, or, for records (None), each sample's own class."""
    if forget is None:
        return F.one_hot(labels, num_classes).bool()
    mask = torch.zeros(num_classes, dtype=torch.bool, device=labels.device)
    mask[list(forget)] = True
    return mask.expand(len(labels), num_classes)
