"""Pseudo-labels beside a retrained network's predictions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from unsc.batches import Batch
from unsc.bench.figures import pseudo


class Fixed(nn.Module):
    """Gives its inputs back: they are the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * x


class Next(Fixed):
    """Always says class 2."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scale * torch.tensor([0.0, 0.0, 1.0, 0.0]).expand_as(x)


def test_shares_and_agreement_by_hand() -> None:
    logits = torch.tensor([[9.0, 1, 2, 0], [9.0, 3, 2, 0], [1.0, 0, 5, 9], [9.0, 0, 8, -1]])
    found = pseudo.measure(Fixed(), Next(), Batch(logits, torch.zeros(4).long()), classes=(0,), num_classes=4)
    assert found["pseudo_labels"] == [0.0, 0.25, 0.5, 0.25]  # second best: 2, 1, 3 (it was wrong), 2
    assert found["retrained"] == [0.0, 0.0, 1.0, 0.0]
    assert found["agreement"] == 0.5 and found["samples"] == 4


def test_on_digits_all_mass_is_on_classes_that_stay(digits_model, digits_retrained, digits_parts) -> None:
    forgotten = digits_parts["forget_train"]
    found = pseudo.measure(digits_model, digits_retrained, forgotten, classes=(3,), num_classes=10)
    for row in (found["pseudo_labels"], found["retrained"]):
        assert sum(row) == pytest.approx(1.0) and len(row) == 10
    assert found["pseudo_labels"][3] == 0.0
    assert found["agreement"] > 0.3  # three times chance


@pytest.mark.parametrize("classes", [4, 100])
def test_the_picture_needs_the_file_alone(classes: int, tmp_path: Path) -> None:
    shares = torch.arange(classes).double().softmax(dim=0)
    found = {"forgotten": [0], "samples": 9, "agreement": 0.5}
    content = found | {"pseudo_labels": shares.tolist(), "retrained": shares.flip(0).tolist()}
    pseudo.draw(json.loads(json.dumps(content)), tmp_path / "pseudo.png")
    assert (tmp_path / "pseudo.png").read_bytes().startswith(b"\x89PNG")
