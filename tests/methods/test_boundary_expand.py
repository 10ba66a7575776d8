"""Boundary expanding: a shadow class that comes and goes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from unsc.batches import Batch
from unsc.errors import InvalidRequest
from unsc.methods import Problem
from unsc.methods.boundary_expand import boundary_expand
from unsc.methods.shared.registry import find
from unsc.request import Request


def _accuracy(model: nn.Module, batch: Batch) -> float:
    with torch.no_grad():
        return (model(batch.inputs).argmax(dim=1) == batch.labels).float().mean().item()


def _tiny(bias: bool = True) -> tuple[nn.Sequential, Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3, bias=bias))
    return model, torch.randn(6, 4)


@pytest.mark.parametrize("bias", [True, False])
def test_equals_training_a_wider_layer_and_cutting_it(bias: bool) -> None:
    """The published form, written out: a layer of four units whose last is pruned at the end."""
    model, inputs = _tiny(bias)
    wide = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 4, bias=bias))
    shadow = torch.randn(1, 5, generator=torch.Generator().manual_seed(7)) * (2 / (5 + 4)) ** 0.5
    with torch.no_grad():
        wide[0].load_state_dict(model[0].state_dict())
        wide.get_parameter("2.weight").copy_(torch.cat([model.get_parameter("2.weight"), shadow]))
        if bias:
            wide.get_parameter("2.bias").copy_(torch.cat([model.get_parameter("2.bias"), torch.zeros(1)]))
    optimizer = torch.optim.SGD(wide.parameters(), lr=0.1, momentum=0.9)
    for _ in range(5):
        optimizer.zero_grad()
        F.cross_entropy(wide(inputs), torch.full((6,), 3)).backward()
        optimizer.step()
    data = TensorDataset(inputs, torch.zeros(6, dtype=torch.long))
    found = boundary_expand(
        Problem(model, Request.for_classes([0], 3), forget=data, seed=7), lr=0.1, epochs=5, batch_size=6
    )
    torch.testing.assert_close(found(inputs), wide(inputs)[:, :3])
    assert not torch.allclose(found(inputs), model(inputs), atol=1e-2)


def test_the_result_has_the_original_architecture(digits_problem: Problem, digits_parts: dict) -> None:
    model = boundary_expand(digits_problem, lr=1e-4, epochs=1)
    shapes = [{k: v.shape for k, v in m.state_dict().items()} for m in (model, digits_problem.model)]
    assert shapes[0] == shapes[1] and repr(model) == repr(digits_problem.model)
    assert model(digits_parts["retain_test"].inputs).shape[1] == 10
    assert not any(m._forward_hooks for m in model.modules())


def test_hooks_go_even_if_training_fails() -> None:
    model, inputs = _tiny()
    kept: list[nn.Module] = []

    class Watched(Problem):
        def copy(self) -> nn.Module:
            kept.append(super().copy())
            return kept[-1]

    bad = TensorDataset(torch.cat([inputs, torch.full((1, 4), 1e38)]), torch.zeros(7, dtype=torch.long))
    with pytest.raises(ArithmeticError):
        boundary_expand(Watched(model, Request.for_classes([0], 3), forget=bad), lr=1e38, epochs=3, batch_size=2)
    assert kept and not any(m._forward_hooks for m in kept[0].modules())


def test_records_are_refused(digits_problem: Problem) -> None:
    with pytest.raises(InvalidRequest, match="classes only"):
        find("boundary_expand").check(replace(digits_problem, request=Request.for_records(None, 10)))


def test_a_class_is_forgotten(digits_problem: Problem, digits_parts: dict) -> None:
    model = boundary_expand(digits_problem, lr=3e-4, epochs=3)
    for part in ("train", "test"):
        assert _accuracy(digits_problem.model, digits_parts[f"forget_{part}"]) > 0.9
        assert _accuracy(model, digits_parts[f"forget_{part}"]) < 0.2
        assert _accuracy(model, digits_parts[f"retain_{part}"]) > 0.75
