"""What comes back with a few samples, and what an attacker needs for it."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.errors import InvalidRequest, UnsupportedModel
from unsc.evaluation.relearning import SAMPLES, WithNewHead, draw, relearning
from unsc.evaluation.shared.case import Case
from unsc.evaluation.shared.metrics import Value, measure
from unsc.methods.logit_mask import LogitMask
from unsc.request import Request


@pytest.fixture(scope="module")
def original(digits_model, digits_parts, digits_retrained) -> dict[str, Value]:
    return relearning(Case(digits_model, Request.for_classes([3], 10), digits_parts, retrained=digits_retrained))


def test_the_original_has_it_back_at_once_and_the_retrained_model_has_not(original: dict[str, Value]) -> None:
    """Without a sample there is no row to recognise the class by, whatever the features know."""
    assert original["relearn_0"].value == 0
    assert all(original[name].value > 90 for name in ("relearn_10", "relearn_100", "relearn_full"))
    detail = original["relearn_10"].detail
    assert detail["curve"] == {name: value.value for name, value in original.items()}
    assert detail["retrained_curve"]["relearn_0"] == 0
    assert all(detail["retrained_curve"][name] < original[name].value - 20 for name in SAMPLES if name != "relearn_0")


def test_the_detail_says_what_was_used(original: dict[str, Value], digits_parts: dict[str, Batch]) -> None:
    everything = len(digits_parts["forget_train"])
    used = [value.detail["samples"] for value in original.values()]
    assert [u["forget"] for u in used] == [0, 10, 100, everything]
    assert [u["retain"] for u in used] == [0, 10, 100, everything]
    assert original["relearn_10"].n == len(digits_parts["forget_test"])


def test_a_mask_does_not_stop_the_attacker(
    original: dict[str, Value], digits_model: nn.Module, digits_parts: dict
) -> None:
    """It gets what it gets from the original, and neither the mask nor the network is changed by it."""
    masked = LogitMask(digits_model, [3])
    before = copy.deepcopy(masked.state_dict())
    case = Case(masked, Request.for_classes([3], 10), digits_parts)
    found = relearning(case)
    assert measure(case, ["forget_test_acc"]).values["forget_test_acc"].value == 0
    assert {name: v.value for name, v in found.items()} == {name: v.value for name, v in original.items()}
    assert found["relearn_full"].detail["retrained_curve"] is None
    assert all(torch.equal(before[name], t) for name, t in masked.state_dict().items())


def test_fewer_samples_than_asked_for_are_all_used(digits_case: Case) -> None:
    few = replace(digits_case, retrained=None, parts={**digits_case.parts})
    few.parts["forget_train"] = few.parts["forget_train"][torch.arange(4)]
    found = relearning(few)
    assert [v.detail["samples"]["forget"] for v in found.values()] == [0, 4, 4, 4]
    assert [v.detail["samples"]["retain"] for v in found.values()] == [0, 9, 9, 9]  # one of each class
    assert found["relearn_10"].value == found["relearn_full"].value


def test_the_new_head_keeps_the_rows_that_stay(digits_model: nn.Module, digits_parts: dict) -> None:
    """Scores of other classes are the network's own; that of the forgotten one is the mean bias."""
    batch = digits_parts["retain_test"]
    made = WithNewHead(digits_model, (3,), batch, 10)
    with torch.no_grad():
        scores, before = made(batch), digits_model(batch.inputs)
        bias = digits_model.get_submodule("14").bias
    kept = torch.arange(10) != 3
    torch.testing.assert_close(scores[:, kept], before[:, kept])
    torch.testing.assert_close(scores[:, 3], bias[kept].mean().expand(len(batch)))  # type: ignore[index]


def test_all_weights_get_gradients_even_frozen_ones(digits_model: nn.Module, digits_parts: dict) -> None:
    frozen = copy.deepcopy(digits_model).requires_grad_(False)
    made, batch = WithNewHead(frozen, (3,), digits_parts["forget_test"], 10), digits_parts["forget_test"]
    F.cross_entropy(made(batch), batch.labels).backward()
    without = {name for name, p in made.named_parameters() if p.grad is None}
    assert without == {"network.14.weight", "network.14.bias"}
    assert not any(p.requires_grad for p in frozen.parameters())


def test_a_head_without_bias_is_replaced_too() -> None:
    model, batch = nn.Sequential(nn.Linear(3, 4, bias=False)), Batch(torch.randn(2, 3), torch.tensor([0, 1]))
    scores = WithNewHead(model, (1, 2), batch, 4)(batch)
    assert (scores[:, 1:3] == 0).all() and torch.equal(scores[:, [0, 3]], model(batch.inputs)[:, [0, 3]])


def test_tokens_are_refused() -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(x)[:, -1]

    batch = Batch(torch.randn(2, 5, 4), torch.tensor([0, 1]))
    with pytest.raises(UnsupportedModel, match=r"head gets inputs of shape \(2, 5, 4\)"):
        WithNewHead(Tokens(), (0,), batch, 3)(batch)


def test_classes_take_turns() -> None:
    labels = torch.tensor([5] * 20 + [1] * 3 + [2] * 20)
    chosen = draw(labels, 9, seed=0)
    assert labels[chosen].bincount().tolist() == [0, 3, 3, 0, 0, 3] and len(chosen.unique()) == 9
    assert labels[draw(labels, 13, seed=0)].bincount().tolist() == [0, 3, 5, 0, 0, 5]
    assert draw(labels, 100, seed=0).sort().values.tolist() == list(range(43))
    assert not torch.equal(chosen, draw(labels, 9, seed=1))


def test_records_are_not_relearned(digits_case: Case) -> None:
    with pytest.raises(InvalidRequest, match="whole classes only"):
        relearning(replace(digits_case, request=Request.for_records(None, 10)))
