"""Controls change what they say and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Subset, TensorDataset

from unsc.methods import Problem
from unsc.methods.bias_shift import bias_shift
from unsc.methods.head_only import head_only
from unsc.methods.logit_mask import LogitMask, logit_mask
from unsc.methods.shared.registry import find
from unsc.request import Request


@pytest.fixture(scope="module")
def two_classes(digits, digits_problem: Problem) -> Problem:
    """Classes 3 and 7 are to be forgotten."""
    gone = torch.isin(digits.train.tensors[1], torch.tensor([3, 7]))
    forget, retain = (Subset(digits.train, part.nonzero().flatten().tolist()) for part in (gone, ~gone))
    return replace(digits_problem, request=Request.for_classes([3, 7], 10), forget=forget, retain=retain)


def changed(model: nn.Module, original: nn.Module) -> set[str]:
    before = original.state_dict()
    assert model.state_dict().keys() == before.keys()
    return {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}


@torch.no_grad()
def outputs(model: nn.Module, digits) -> Tensor:
    return model(digits.test.tensors[0])


@pytest.mark.parametrize("control", [logit_mask, bias_shift, head_only])
def test_no_forgotten_training_sample_is_classified_as_forgotten(two_classes: Problem, digits, control) -> None:
    images, labels = digits.train.tensors
    gone = torch.isin(labels, torch.tensor([3, 7]))
    before = {name: value.clone() for name, value in two_classes.model.state_dict().items()}
    model, again = control(two_classes), control(two_classes)
    with torch.no_grad():
        assert torch.isin(two_classes.model(images[gone]).argmax(dim=1), torch.tensor([3, 7])).float().mean() > 0.9
        assert not torch.isin(model(images[gone]).argmax(dim=1), torch.tensor([3, 7])).any()
        assert torch.equal(model(images), again(images))
        assert (model(images[~gone]).argmax(dim=1) == labels[~gone]).float().mean() > 0.95
    assert all(torch.equal(value, before[name]) for name, value in two_classes.model.state_dict().items())


@pytest.mark.parametrize("control", [logit_mask, bias_shift])
def test_mask_and_shift_leave_the_other_logits_alone(two_classes: Problem, digits, control) -> None:
    kept = two_classes.kept
    before, after = outputs(two_classes.model, digits), outputs(control(two_classes), digits)
    assert torch.equal(before[:, kept], after[:, kept])
    assert (after[:, [3, 7]] < before[:, [3, 7]]).all()


@pytest.mark.parametrize(("control", "parts"), [(bias_shift, {"14.bias"}), (head_only, {"14.bias", "14.weight"})])
def test_only_the_last_layer_changes(two_classes: Problem, digits, control, parts: set[str]) -> None:
    model = control(two_classes)
    assert changed(model, two_classes.model) == parts
    assert isinstance(two_classes.model, nn.Sequential)
    with torch.no_grad():
        assert torch.equal(model[:14](digits.test.tensors[0]), two_classes.model[:14](digits.test.tensors[0]))
    assert all(p.requires_grad for p in model.parameters())


def test_the_mask_holds_the_original(two_classes: Problem) -> None:
    masked = logit_mask(two_classes)
    assert isinstance(masked, LogitMask) and not changed(masked.model, two_classes.model)


def hand_made(bias: bool) -> Problem:
    """Identity features: scores are the inputs. Class 0 leads class 1 by 2 and class 2 by 4, at most."""
    model = nn.Linear(3, 3, bias=bias).double()
    with torch.no_grad():
        model.weight.copy_(torch.eye(3))
        if bias:
            model.bias.fill_(0.5)
    samples = torch.tensor([[5.0, 3.0, 1.0], [5.0, 4.5, 1.0], [1.0, 4.0, 3.0]], dtype=torch.float64)
    return Problem(model, Request.for_classes([0], 3), forget=TensorDataset(samples, torch.zeros(3, dtype=torch.long)))


@pytest.mark.parametrize("bias", [True, False])
def test_the_shift_is_just_enough(bias: bool) -> None:
    """The first sample needs most: its lead of 2 and a hair more."""
    problem = hand_made(bias)
    found = bias_shift(problem).get_parameter("bias").detach() - (0.5 if bias else 0.0)
    assert -2.001 < found[0] < -2 and found[1:].abs().max() == 0


def test_a_class_that_leads_nowhere_is_not_shifted() -> None:
    problem = replace(hand_made(True), request=Request.for_classes([0, 2], 3))
    found = bias_shift(problem).get_parameter("bias").detach() - 0.5
    assert -2.001 < found[0] < -2 and found[2] == 0


def test_the_head_stops_when_all_is_forgotten(two_classes: Problem) -> None:
    """One that has forgotten already is not trained at all; one that may not train is the original."""
    done = head_only(two_classes)
    assert not changed(head_only(replace(two_classes, model=done)), done)
    assert not changed(head_only(two_classes, max_passes=0), two_classes.model)


def test_one_step_of_the_head_by_hand() -> None:
    """The gradient of the cross entropy of a linear layer is (p - target) x, for the forgotten and the retained one.

    The forgotten sample of class 0 has its next best score for class 1; the retained one has label 2.
    """
    x = torch.tensor([[5.0, 3.0, 1.0], [1.0, 4.0, 3.0]], dtype=torch.float64)
    parts = [TensorDataset(x[[i]], torch.tensor([label])) for i, label in ((0, 0), (1, 2))]
    problem = replace(hand_made(True), forget=parts[0], retain=parts[1])
    found = head_only(problem, lr=0.1, max_passes=1)
    wrong = (x + 0.5).softmax(dim=1) - torch.eye(3, dtype=torch.float64)[[1, 2]]
    torch.testing.assert_close(
        found.get_parameter("weight").detach(), torch.eye(3, dtype=torch.float64) - 0.1 * wrong.T @ x
    )
    torch.testing.assert_close(found.get_parameter("bias").detach(), 0.5 - 0.1 * wrong.sum(dim=0))


def test_records_leave_their_own_class(digits_problem: Problem, digits) -> None:
    some = digits.train.tensors[1] == 5
    chosen = some.nonzero().flatten()[:5].tolist()
    rest = [i for i in range(len(some)) if i not in chosen]
    problem = replace(
        digits_problem,
        request=Request.for_records(None, 10),
        forget=Subset(digits.train, chosen),
        retain=Subset(digits.train, rest),
    )
    model = head_only(problem)
    with torch.no_grad():
        assert (model(digits.train.tensors[0][chosen]).argmax(dim=1) != 5).all()


def test_controls_are_marked_and_come_last() -> None:
    assert all(find(name).control for name in ("logit_mask", "bias_shift", "head_only"))
    assert find("logit_mask").kinds == find("bias_shift").kinds == ("classes",)
    assert find("logit_mask").needs == ()


def test_a_mask_passes_on_named_inputs() -> None:
    class Named(nn.Module):
        def forward(self, *, x: Tensor) -> dict[str, Tensor]:
            return {"logits": x}

    x = torch.randn(4, 3)
    masked = LogitMask(Named(), [1])(x=x)
    assert torch.equal(masked[:, [0, 2]], x[:, [0, 2]]) and (masked[:, 1] == -1e4).all()
