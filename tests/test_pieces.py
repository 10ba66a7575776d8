"""Networks are passed as many samples at once as suit the device, which changes nothing that they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.logits import all_logits, shared_logits
from unsc.pieces import looked_at

CPU = torch.device("cpu")
Look: TypeAlias = Callable[[nn.Module, Batch], Tensor]


class Counting(nn.Module):
    """Keeps how many samples came at once."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.came = nn.Linear(3, 4, dtype=torch.float64), list[int]()

    def forward(self, x: Tensor) -> Tensor:
        self.came.append(len(x))
        return self.fc(x)


@pytest.mark.parametrize("look", [all_logits, shared_logits])
@pytest.mark.parametrize("samples", [1, looked_at(CPU), 3 * looked_at(CPU) + 5, 700])
def test_no_pass_has_more_than_suit_the_device_and_none_is_left_out(look: Look, samples: int) -> None:
    torch.manual_seed(0)
    model = Counting()
    batch = Batch(torch.randn(samples, 3, dtype=torch.float64), torch.zeros(samples, dtype=torch.long))
    torch.testing.assert_close(look(model, batch), model.fc(batch.inputs))
    assert max(model.came) <= looked_at(CPU) and sum(model.came) == samples
    assert len(model.came) == -(-samples // looked_at(CPU)), "no more passes than it takes"
