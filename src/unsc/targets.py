"""Where forgotten samples go: the classes that the original network itself finds most similar."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from unsc.errors import InvalidRequest, either

Targets: TypeAlias = Literal["soft", "hard", "random"]
TARGETS: tuple[Targets, ...] = get_args(Targets)


def pseudo_labels(logits: Tensor, removed: Tensor, *, targets: Targets = "soft") -> Tensor:
    """Target distributions (n, classes) for forgotten samples, from the original network's `logits` (n, classes).

    `removed` (n, classes) is true where a sample must not go: the forgotten classes, or a record's own class
    (`Request.removed`). `"hard"` is the paper's rule, all mass on the highest score that is left (its second-best
    class if the network was right, its first if it was wrong). `"soft"` keeps the network's relative scores of all
    that are left. `"random"` ignores the network: one class that is left, drawn uniformly with a fixed seed.
    """
    if targets not in TARGETS:
        raise InvalidRequest(f"targets={targets!r}; allowed is {either(TARGETS)}")
    if removed.all(dim=1).any():
        raise InvalidRequest("no class is left to move a forgotten sample to; retain at least one class")
    left = logits.float().masked_fill(removed, -torch.inf)
    if targets == "hard":
        return F.one_hot(left.argmax(dim=1), logits.shape[1]).float()
    if targets == "random":
        drawn = torch.multinomial((~removed).float().cpu(), 1, generator=torch.Generator().manual_seed(0)).flatten()
        return F.one_hot(drawn.to(logits.device), logits.shape[1]).float()
    return left.softmax(dim=1)
