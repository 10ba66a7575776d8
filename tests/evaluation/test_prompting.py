"""A prompt brings back what is only held down, not what was never learned, and changes no weight."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from unsc.batches import Batch
from unsc.errors import InvalidRequest, UnsupportedModel
from unsc.evaluation.prompting import PARAMETERS, Prompted, input_prompt, prompt_shape, prompted
from unsc.evaluation.shared.case import Case
from unsc.logits import logits_of
from unsc.methods import Problem, apply, find
from unsc.request import Request


def test_a_bias_is_undone_and_a_class_never_seen_stays_unknown(digits_case: Case, digits_problem: Problem) -> None:
    """The bias hides the class from every sample; the prompt finds it, and keeps what stays apart from it."""
    shifted = apply(find("bias_shift"), digits_problem).model
    assert shifted is not None
    hidden = input_prompt(digits_case.of(shifted))
    assert hidden["prompt_forget_acc"].detail["before"] < 20
    assert hidden["prompt_forget_acc"].value > 80
    assert hidden["prompt_retain_acc"].value > 80
    gained = hidden["prompt_forget_acc"].detail["gained"]
    assert gained == pytest.approx(hidden["prompt_forget_acc"].value - hidden["prompt_forget_acc"].detail["before"])
    assert digits_case.retrained is not None
    assert input_prompt(digits_case.of(digits_case.retrained))["prompt_forget_acc"].value < 10


def test_no_weight_changes_and_the_seed_decides(digits_case: Case) -> None:
    before = {name: value.clone() for name, value in digits_case.model.state_dict().items()}
    parts, few = digits_case.parts, digits_case.parts["forget_test"][torch.arange(1)]
    first, again, other = (
        prompted(Prompted(digits_case.model, few), parts["forget_train"], parts["retain_train"], seed=seed)
        for seed in (0, 0, 1)
    )
    for name, value in before.items():
        assert torch.equal(value, digits_case.model.state_dict()[name])
        assert torch.equal(value, first.network.state_dict()[name])
    assert torch.equal(first.prompt, again.prompt) and not torch.equal(first.prompt, other.prompt)
    assert all(p.requires_grad for p in digits_case.model.parameters())


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28), (3, 224, 224), (4,)])
def test_a_prompt_is_small(shape: tuple[int, ...]) -> None:
    found = prompt_shape(torch.Size(shape))
    numbers = torch.Size(found).numel()
    assert len(found) == len(shape) and found[0] == shape[0]
    assert numbers == torch.Size(shape).numel() or PARAMETERS / 2 < numbers <= PARAMETERS


def test_a_larger_picture_gets_an_enlarged_prompt() -> None:
    """A constant prompt adds that constant everywhere; at first it adds nothing."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 2))
    batch = Batch(torch.randn(4, 3, 32, 32), torch.zeros(4, dtype=torch.int64))
    attacked = Prompted(model, batch)
    assert torch.equal(attacked(batch), logits_of(model, batch))
    nn.init.constant_(attacked.prompt, 0.5)
    assert torch.allclose(attacked(batch), logits_of(model, replace(batch, inputs=batch.inputs + 0.5)), atol=1e-5)


def test_what_no_prompt_can_be_added_to_is_said(digits_case: Case) -> None:
    labels = torch.zeros(1, dtype=torch.int64)
    for inputs in (torch.ones(1, 4, dtype=torch.int64), {"x": torch.ones(1, 4)}):
        with pytest.raises(UnsupportedModel, match="one tensor of real numbers"):
            Prompted(digits_case.model, Batch(inputs, labels))
    with pytest.raises(UnsupportedModel, match=r"the shape \(5000,\)"):
        prompt_shape(torch.Size([5000]))
    with pytest.raises(InvalidRequest, match="whole classes only"):
        input_prompt(replace(digits_case, request=Request.for_records(None, 10)))
