"""Control: the forgotten classes can no longer be predicted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method


class LogitMask(nn.Module):
    """The unchanged network with the forgotten classes' logits out of reach."""

    def __init__(self, model: nn.Module, classes: Iterable[int]) -> None:
        super().__init__()
        self.model = model
        self.classes = list(classes)

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        output = self.model(*args, **kwargs)
        logits = output["logits"] if isinstance(output, dict) else getattr(output, "logits", output)
        columns = torch.tensor(self.classes, device=logits.device)
        return logits.index_fill(1, columns, -1e4)  # finite, so that KL and softmax stay defined


@method(needs=(), kinds=("classes",), control=True)
def logit_mask(problem: Problem) -> nn.Module:
    """A control: the network as it was, behind a mask.

    Mechanism: the forgotten classes' logits are replaced by -10,000, so that no sample is classified as one of them.

    Data: neither.

    Published: no settings.

    Departures: none. Every weight and every other logit is that of the original, so whatever finds a trace of the
    forgotten classes in the original must find it here; a metric that calls this forgetting measures accuracy alone.
    """
    return LogitMask(problem.copy(), problem.classes)
