"""Step rules: found by name or passed as they are; a new one is one file."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

import unsc
from unsc.bench.datasets import Split
from unsc.errors import InvalidRequest
from unsc.steps import rule_for, step_rules

EXAMPLE = Path(__file__).parents[2] / "examples" / "contributing" / "step_rule.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_step_rule", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["example_step_rule"] = module
    spec.loader.exec_module(module)
    return module


def test_the_rules_of_the_room_are_found_by_name() -> None:
    assert {"budgeted", "paper"} <= set(step_rules())


def test_a_guide_belongs_to_the_rule_whose_steps_it_confines() -> None:
    assert rule_for(unsc.NullSpace({}, {}, ())).name == "paper"
    assert rule_for(unsc.RetainedCurvature({}, 1)).name == "budgeted"
    with pytest.raises(InvalidRequest, match="the guide is a str"):
        rule_for("null space")


def test_a_rule_from_elsewhere_forgets(example: ModuleType, digits: Split, digits_model: nn.Module) -> None:
    """The contributor's example: its options are its own, and only the entries that it chooses move."""
    rule = example.SparseRule(share=0.01)
    result = unsc.forget(digits_model, digits.train, classes=[3], step=rule, max_passes=2)
    assert result.options.step is rule
    assert result.options.to_dict()["share"] == 0.01
    assert result.guide == example.Names(("0", "3", "7", "12", "14"))
    before, after = digits_model.state_dict()["12.weight"], result.model.state_dict()["12.weight"]
    steps = result.metrics.steps
    assert 0 < int((before != after).sum()) <= steps * round(0.01 * before.numel())
    assert result.metrics.history[-1].forget_mass < result.metrics.history[0].forget_mass
    assert torch.equal(before, digits_model.state_dict()["12.weight"])


def test_its_options_are_checked(example: ModuleType) -> None:
    with pytest.raises(InvalidRequest, match="share=2; allowed is a share above 0"):
        example.SparseRule(share=2)
