"""What a model returns is checked to be logits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.errors import UnsupportedModel
from unsc.logits import check_logits, logits_of


class Returning(nn.Module):
    """A model that returns what it was given to return, and keeps what it was called with."""

    def __init__(self, output: Any) -> None:
        super().__init__()
        self.output = output
        self.called: tuple[tuple, dict] = ((), {})

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self.called = (args, kwargs)
        return self.output


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


X, Y = torch.randn(4, 3), torch.tensor([2, 0, 1, 0])


@pytest.mark.parametrize("wrap", [lambda t: t, lambda t: {"logits": t}, lambda t: SimpleNamespace(logits=t)])
def test_logits_come_plain_or_inside_an_object(wrap: Any) -> None:
    """A tensor, a dict with logits and an object with logits are the same scores."""
    scores = torch.randn(4, 3)
    assert logits_of(Returning(wrap(scores)), Batch(X, Y)) is scores


def test_inputs_are_passed_as_their_form_says() -> None:
    """A tensor is the only argument, a tuple is passed by position, a dict by name."""
    model = Returning(torch.randn(4, 3))
    logits_of(model, Batch(X, Y))
    assert model.called == ((X,), {})
    logits_of(model, Batch((X, Y), Y))
    assert model.called == ((X, Y), {})
    logits_of(model, Batch({"x": X}, Y))
    assert model.called == ((), {"x": X})


@pytest.mark.parametrize(
    ("output", "named"),
    [
        (torch.randn(4), "(4,)"),
        (torch.randn(4, 3, 5), "(4, 3, 5)"),
        (torch.randn(3, 4), "(3, 4)"),
        ((torch.randn(4, 3), None), "tuple"),
        ({"scores": torch.randn(4, 3)}, "dict"),
        (None, "NoneType"),
    ],
)
def test_what_is_not_logits_is_refused(output: Any, named: str) -> None:
    """The message tells which shape or type the model returned."""
    with pytest.raises(UnsupportedModel) as caught:
        logits_of(Returning(output), Batch(X, Y))
    assert named in str(caught.value)
    assert "4 samples" in str(caught.value)


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        (torch.randn(4, 3).softmax(dim=1), "probabilities"),
        (torch.eye(3), "probabilities"),
        (torch.randn(4, 1), "one output"),
        (torch.tensor([[0.0, float("nan")]]), "NaN"),
        (torch.tensor([[0.0, float("-inf")]]), "Inf"),
    ],
)
def test_scores_that_cannot_be_logits_are_refused(scores: Tensor, reason: str) -> None:
    """Probabilities, a single output and values that are not finite."""
    with pytest.raises(UnsupportedModel, match=reason):
        check_logits(scores)


@pytest.mark.parametrize("scores", [torch.randn(4, 3), torch.randn(4, 3).log_softmax(dim=1), torch.zeros(4, 3)])
def test_logits_are_accepted(scores: Tensor) -> None:
    """Any finite scores that are not probabilities, log-probabilities among them."""
    check_logits(scores)
