"""Controls: what looks like forgetting on accuracy alone, and is not."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class LogitMask(nn.Module):
    """The unchanged network with the forgotten classes' logits out of reach."""

    def __init__(self, model: nn.Module, classes: Iterable[int]) -> None:
        super().__init__()
        self.model = model
        self.classes = list(classes)

    def forward(self, x: Tensor) -> Tensor:
        logits = self.model(x)
        columns = torch.tensor(self.classes, device=logits.device)
        return logits.index_fill(1, columns, -1e4)  # finite, so that KL and softmax stay defined
