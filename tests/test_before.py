"""The same seeds give the same weights: the budgeted step as in 0.3.0, everything else as in 0.2.0."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.utils.data import Subset

import unsc
from unsc.bench.datasets import Split
from unsc.bench.networks import digits_cnn
from unsc.methods import Problem, apply
from unsc.request import Request

BEFORE = Path(__file__).parent / "before"
FACTS: dict[str, dict[str, Any]] = json.loads((BEFORE / "facts.json").read_text())
RUNS = [name for name in FACTS if not name.startswith("method-")]
METHODS = [name.removeprefix("method-") for name in FACTS if name.startswith("method-")]


@pytest.fixture(scope="module")
def original() -> nn.Module:
    """The network that was recorded, so that nothing depends on how this machine trains one."""
    model = digits_cnn()
    model.load_state_dict(load_file(BEFORE / "original.safetensors"))
    return model.eval()


@pytest.fixture(scope="module")
def recorded() -> dict[str, Tensor]:
    """Displacements by run and parameter: those of large parameters were left out."""
    return load_file(BEFORE / "displacements.safetensors")


HEAD = ("14.weight", "14.bias")


def check_displacement(
    name: str, model: nn.Module, original: nn.Module, recorded: dict[str, Tensor], settled: Sequence[int] = ()
) -> None:
    """Within a thousandth of the largest entry: other processors round otherwise, and rounding adds up.

    The outputs `settled` at the end of a run are left out.
    """
    then = {key.partition("/")[2]: d for key, d in recorded.items() if key.startswith(f"{name}/")}
    assert then
    before, after = original.state_dict(), model.state_dict()
    for key, d in then.items():
        rows = [i for i in range(len(d)) if key not in HEAD or i not in settled]
        rounded = torch.finfo(d.dtype).eps * before[key].abs().max().item()  # a small change of a large weight
        atol = 1e-3 * d.abs().max().item() + rounded
        torch.testing.assert_close((after[key] - before[key])[rows], d[rows], rtol=0, atol=atol)


@pytest.mark.parametrize("name", RUNS)
def test_forget_gives_the_same_weights(
    name: str, digits: Split, original: nn.Module, recorded: dict[str, Tensor]
) -> None:
    then = FACTS[name]
    result = unsc.forget(original, digits.train, **then["options"])
    check_displacement(name, result.model, original, recorded, then["options"].get("classes", ()))
    assert (result.metrics.steps, result.metrics.stopped) == (then["steps"], then["stopped"])
    for measured in ("retained_kl", "forget_mass", "drift_max"):
        assert getattr(result.metrics, measured) == pytest.approx(then[measured], rel=1e-2)


@pytest.mark.parametrize("name", METHODS)
def test_methods_give_the_same_weights(
    name: str, digits: Split, original: nn.Module, recorded: dict[str, Tensor]
) -> None:
    gone = digits.train.tensors[1] == 3
    forget, retain = (Subset(digits.train, part.nonzero().flatten().tolist()) for part in (gone, ~gone))
    model = apply(name, Problem(original, Request.for_classes([3], 10), forget=forget, retain=retain)).model
    assert model is not None
    check_displacement(f"method-{name}", model, original, recorded, [3])
