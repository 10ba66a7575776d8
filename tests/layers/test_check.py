"""What is not `rows @ W.T` is flagged before it is edited, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.layers import check_layers, find_layers


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def hooks_of(model: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


class Standardised(nn.Conv2d):
    """A convolution with standardised weights, whose rows times weight is not its output."""

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight - self.weight.mean(dim=(1, 2, 3), keepdim=True)
        weight = weight / weight.std(dim=(1, 2, 3), keepdim=True)
        return F.conv2d(x, weight, self.bias, self.stride, self.padding)


class Doubling(nn.MultiheadAttention):
    """An attention that returns something else than its output projection."""

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
        output, weights = super().forward(*args, **kwargs)
        return output.square(), weights


class WithTrailingSum(nn.Linear):
    """A linear layer that returns one number for each row."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).sum(dim=-1)


def checked(model: nn.Module, *args: Tensor) -> dict[str, str]:
    return check_layers(model, find_layers(model).layers, lambda: model(*args))


def test_check_flags_what_is_not_a_matrix_product() -> None:
    """A subclass that does something else with its weight is named; its sound neighbours are not."""
    model = nn.Sequential(nn.Conv2d(2, 4, 3), Standardised(4, 4, 3, padding=1), nn.Flatten(), nn.Linear(36, 3))
    failed = checked(model, torch.randn(2, 2, 5, 5))
    assert failed.keys() == {"1"}
    assert "Standardised" in failed["1"]


def test_check_flags_outputs_of_another_shape() -> None:
    """An output that cannot be compared entry by entry is a failure, not an exception."""
    failed = checked(nn.Sequential(nn.Linear(3, 3), WithTrailingSum(3, 3)), torch.randn(2, 3))
    assert failed.keys() == {"1"}


def test_check_flags_an_attention_that_changes_its_output() -> None:
    """The output projection of an attention is compared with what the attention returns."""
    x = torch.randn(2, 3, 4)
    assert "out_proj" in checked(Doubling(4, 2).eval(), x, x, x)
    assert checked(nn.MultiheadAttention(4, 2).eval(), x, x, x) == {}


def test_check_flags_a_layer_that_is_never_used() -> None:
    """A layer without rows has no data to confine it."""
    model = nn.Sequential(nn.Linear(3, 3))
    model[0].spare = nn.Linear(3, 3)
    failed = checked(model, torch.randn(2, 3))
    assert failed.keys() == {"0.spare"}
    assert "not used" in failed["0.spare"]


def test_check_flags_a_layer_that_is_wrong_in_one_call_of_several() -> None:
    """Every call counts: a module that is right at first and wrong later is flagged."""

    class Moody(nn.Linear):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return super().forward(x) + (self.calls > 1)

    class Twice(nn.Module):
        def __init__(self, step: nn.Module) -> None:
            super().__init__()
            self.step = step

        def forward(self, x: Tensor) -> Tensor:
            return self.step(self.step(x))

    x = torch.randn(2, 3)
    assert checked(Twice(Moody(3, 3)), x).keys() == {"step"}
    assert checked(Twice(nn.Linear(3, 3)), x) == {}


def _shared_weight() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    return model


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (_shared_weight, (2, 3, 4)),
        (lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), (2, 3, 4)),
        (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2, enable_nested_tensor=False), (3, 2, 4)),
        (lambda: nn.Sequential(nn.Conv1d(4, 6, 3, groups=2, padding=2, dilation=2), nn.Conv1d(6, 2, 1)), (2, 4, 5)),
        (lambda: nn.Conv2d(2, 4, 3, padding="same", padding_mode="circular", groups=2), (2, 5, 5)),
    ],
)
def test_check_passes_what_is_a_matrix_product(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    """No sound layer is flagged: shared, nested, grouped, dilated or without batch dimension."""
    model = make().eval()
    assert len(find_layers(model).layers) >= 1
    assert checked(model, torch.randn(shape)) == {}
    assert hooks_of(model) == 0


def test_a_frozen_bias_does_not_freeze_its_weight() -> None:
    """Outputs include a bias that is not edited; the weight alone still is `rows @ W.T`."""
    model = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Conv1d(1, 2, 3, groups=1), nn.Flatten())
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not name.endswith("bias"))
    found = find_layers(model)
    assert [layer.biases for layer in found.layers] == [(), ()]
    inputs = torch.randn(3, 1, 5)
    assert check_layers(model, found.layers, lambda: model(inputs)) == {}


def test_a_layer_that_is_called_without_rows_passes() -> None:
    """As an expert that no sample was sent to: there is nothing that contradicts its rows."""
    assert checked(nn.Linear(3, 2), torch.randn(0, 3)) == {}


def test_a_linear_layer_may_return_its_outputs_in_another_shape() -> None:
    """What counts are the numbers in their order, as with heads that are split off."""

    class Heads(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).unflatten(-1, (2, 3))

    assert checked(Heads(4, 6), torch.randn(5, 4)) == {}


def test_tied_keys_and_values_are_one_layer() -> None:
    """A weight that one attention uses twice is confined by the rows of both uses."""
    model = nn.MultiheadAttention(4, 2, kdim=3, vdim=3)
    model.v_proj_weight = model.k_proj_weight
    tied = next(layer for layer in find_layers(model).layers if layer.name == "k")
    assert [use.role for use in tied.uses] == ["k", "v"]
    x = torch.randn(5, 4)
    assert checked(model, x, x[:, :3], x[:, :3]) == {}
