"""The copy that is worked on, and the choice of layers to edit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.errors import InvalidRequest, UnsupportedModel
from unsc.layers import find_layers
from unsc.models import count_classes, editable_layers, working_copy


class Standardised(nn.Linear):
    """A linear layer that standardises its weight."""

    def forward(self, x: Tensor) -> Tensor:
        weight = (self.weight - self.weight.mean(dim=1, keepdim=True)) / self.weight.std(dim=1, keepdim=True)
        return nn.functional.linear(x, weight, self.bias)


class Attending(nn.Module):
    """One attention and a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.attention(x, x, x)[0].mean(dim=1))


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 3))


def batch_for(*shape: int) -> Batch:
    return Batch(torch.randn(6, *shape), torch.zeros(6, dtype=torch.int64))


def test_the_users_model_is_left_alone() -> None:
    """Weights, buffers and the mode of each module stay as they were, whatever happens to the copy."""
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Dropout())
    model[1].eval()
    modes = [module.training for module in model.modules()]
    state = {name: t.clone() for name, t in model.state_dict().items()}
    working = working_copy(model)
    assert not any(module.training for module in working.modules())
    with torch.no_grad():
        for t in [*working.parameters(), *working.buffers()]:
            t.add_(1)
    assert [module.training for module in model.modules()] == modes
    assert modes == [True, True, False, True]
    assert all(torch.equal(t, state[name]) for name, t in model.state_dict().items())


def test_the_copy_keeps_ties_and_the_users_choice_of_frozen_weights() -> None:
    """Shared parameters stay shared, and `requires_grad` carries over."""
    model = network()
    model[3].requires_grad_(False)
    model[5].bias = nn.Parameter(torch.zeros(3))
    model.append(nn.Linear(3, 3))
    model[6].bias = model[5].bias
    assert find_layers(working_copy(model)) == find_layers(model)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_worked_on_in_float32(dtype: torch.dtype) -> None:
    """The copy holds the same values in float32; the user's model keeps its precision."""
    model = network().to(dtype)
    working = working_copy(model)
    assert {p.dtype for p in working.parameters()} == {torch.float32}
    assert {p.dtype for p in model.parameters()} == {dtype}
    for ours, theirs in zip(working.parameters(), model.parameters(), strict=True):
        assert torch.equal(ours, theirs.float())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_full_precision_is_kept(dtype: torch.dtype) -> None:
    """Nothing is rounded: float64 stays float64."""
    assert {p.dtype for p in working_copy(network().to(dtype)).parameters()} == {dtype}


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_weights_that_are_not_finite_are_named(value: str) -> None:
    """The message names every unsound parameter and no other."""
    model = network()
    with torch.no_grad():
        model.get_parameter("0.weight")[0, 0] = model.get_parameter("5.bias")[1] = float(value)
    with pytest.raises(UnsupportedModel) as caught:
        working_copy(model)
    named = {name for name, _ in model.named_parameters() if name in str(caught.value)}
    assert named == {"0.weight", "5.bias"}


def test_nan_in_a_buffer_is_named() -> None:
    """Statistics of a norm that hold NaN spoil the model like a weight."""
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    model.get_buffer("1.running_mean")[0] = float("nan")
    with pytest.raises(UnsupportedModel, match=r"1\.running_mean"):
        working_copy(model)


def test_a_mask_of_infinities_is_no_fault() -> None:
    """Causal masks are buffers with -Inf; a model that has one is sound."""
    model = network()
    mask = torch.full((3, 3), float("-inf")).triu(1)
    model.register_buffer("mask", mask)
    assert torch.equal(working_copy(model).get_buffer("mask"), mask)


def test_a_model_without_parameters_is_refused() -> None:
    """There is nothing to copy."""
    with pytest.raises(UnsupportedModel, match="ReLU has no parameters"):
        working_copy(nn.ReLU())


def test_lazy_layers_survive_the_copy() -> None:
    """A layer that was never initialised has no values to check and does no harm."""
    model = nn.Sequential(nn.Linear(3, 3))
    model[0].spare = nn.LazyLinear(2)
    layers, frozen = editable_layers(working_copy(model), batch_for(3))
    assert [layer.name for layer in layers] == ["0"]
    assert frozen["0.spare.weight"] == "never initialised"


def test_all_sound_layers_are_editable() -> None:
    """Without a request, layers and frozen parameters share out the whole model."""
    model = network()
    layers, frozen = editable_layers(model, batch_for(4))
    assert [layer.name for layer in layers] == ["0", "3", "5"]
    assert frozen.keys() == {"1.weight", "1.bias"}


def test_layers_that_are_no_matrix_product_are_frozen() -> None:
    """A subclass with its own arithmetic and a layer that is never used are frozen with their reasons."""
    model = nn.Sequential(nn.Linear(4, 5), Standardised(5, 5), nn.Linear(5, 3))
    model[0].spare = nn.Linear(2, 2)
    layers, frozen = editable_layers(model, batch_for(4))
    assert [layer.name for layer in layers] == ["0", "2"]
    assert frozen.keys() == {"1.weight", "1.bias", "0.spare.weight", "0.spare.bias"}
    assert "Standardised" in frozen["1.weight"]
    assert "not used" in frozen["0.spare.bias"]


def test_requested_parameters_pick_their_layers() -> None:
    """Only the requested layers are editable; all other parameters are frozen."""
    layers, frozen = editable_layers(network(), batch_for(4), parameters=["3.weight", "3.bias"])
    assert [layer.name for layer in layers] == ["3"]
    assert layers[0].columns == 6
    assert frozen.keys() == {f"{i}.{leaf}" for i in (0, 1, 5) for leaf in ("weight", "bias")}
    assert frozen["0.weight"] == "not requested"
    assert frozen["1.weight"] != "not requested"


def test_a_bias_that_was_not_requested_is_frozen() -> None:
    """A weight requested without its bias is a layer without a bias column."""
    layers, frozen = editable_layers(network(), batch_for(4), parameters=("3.weight", "5.weight", "5.bias"))
    assert {layer.name: layer.parameters for layer in layers} == {"3": ("3.weight",), "5": ("5.weight", "5.bias")}
    assert [layer.columns for layer in layers] == [5, 6]
    assert frozen["3.bias"] == "not requested"
    assert "5.bias" not in frozen


def test_a_request_can_name_one_bias_of_several() -> None:
    """Of two biases at a common weight only the requested one keeps its column."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    layers, frozen = editable_layers(model, batch_for(4), parameters=["0.weight", "2.bias"])
    assert [layer.parameters for layer in layers] == [("0.weight", "2.bias")]
    assert len(layers[0].uses) == 2
    assert frozen == {"0.bias": "not requested"}


@pytest.mark.parametrize("bias", [True, False])
def test_a_packed_weight_picks_query_key_and_value(bias: bool) -> None:
    """An attention's packed weight is three layers, with or without their thirds of the packed bias."""
    wanted = {"attention.in_proj_weight"} | ({"attention.in_proj_bias"} if bias else set())
    layers, frozen = editable_layers(Attending(), batch_for(3, 4), parameters=wanted)
    assert [layer.name for layer in layers] == ["attention.q", "attention.k", "attention.v"]
    assert [layer.columns for layer in layers] == [4 + bias] * 3
    assert wanted.isdisjoint(frozen)


def test_layers_and_frozen_parameters_partition_the_model_for_every_request() -> None:
    """Whatever is requested, each parameter is in a layer or frozen, and the layers hold what was requested."""
    model = Attending()
    everything = {name for name, _ in model.named_parameters()}
    weights = sorted(name for name in everything if name.endswith("weight"))
    for weight in weights:
        for wanted in ({weight}, {weight, weight.removesuffix("weight") + "bias"}):
            layers, frozen = editable_layers(model, batch_for(3, 4), parameters=wanted)
            assert {name for layer in layers for name in layer.parameters} == wanted
            assert frozen.keys() == everything - wanted


def test_unknown_parameters_are_all_named() -> None:
    """The message names each unknown parameter and some that exist."""
    with pytest.raises(InvalidRequest) as caught:
        editable_layers(network(), batch_for(4), parameters=["0.weight", "body.weight", "head.bias"])
    assert "body.weight" in str(caught.value)
    assert "head.bias" in str(caught.value)
    assert "3.weight" in str(caught.value)


def test_parameters_that_cannot_be_confined_are_all_named() -> None:
    """The message names each with its reason: a norm, a frozen weight, a bias without its weight."""
    model = network()
    model[5].weight.requires_grad_(False)
    with pytest.raises(InvalidRequest) as caught:
        editable_layers(model, batch_for(4), parameters=["0.weight", "1.weight", "3.bias", "5.weight"])
    message = str(caught.value)
    assert "1.weight: LayerNorm.weight" in message
    assert "3.bias: a bias moves only with its weight" in message
    assert "5.weight: requires_grad is False" in message
    assert "0.weight" not in message


@pytest.mark.parametrize("frozen", [False, True])
def test_a_model_with_nothing_to_edit_is_refused(frozen: bool) -> None:
    """The message tells which layers could be edited and why none here can."""
    model = network().requires_grad_(False) if frozen else nn.Sequential(nn.LayerNorm(4), nn.Softplus())
    with pytest.raises(UnsupportedModel) as caught:
        editable_layers(model, batch_for(4))
    assert "Conv2d" in str(caught.value)
    assert "0.weight: " in str(caught.value)


@pytest.mark.parametrize(
    ("last", "reason"), [(nn.Softmax(dim=1), "probabilities"), (nn.Unflatten(1, (3, 1)), r"\(4, 3, 1\)")]
)
def test_a_model_that_does_not_return_logits_is_refused(last: nn.Module, reason: str) -> None:
    """The check on a few samples also looks at the model's output."""
    with pytest.raises(UnsupportedModel, match=reason):
        editable_layers(nn.Sequential(nn.Linear(4, 3), last), batch_for(4))


def test_the_check_takes_the_models_precision() -> None:
    """Inputs in another precision than the model's are converted for the check."""
    layers, _ = editable_layers(network().double(), batch_for(4))
    assert len(layers) == 3


def test_patterns_request_what_can_be_confined() -> None:
    """Of what a pattern matches, norms stay frozen; names and patterns may be mixed."""
    layers, frozen = editable_layers(network(), batch_for(4), parameters=["[01].*", "5.weight"])
    assert {name for layer in layers for name in layer.parameters} == {"0.weight", "0.bias", "5.weight"}
    assert "LayerNorm" in frozen["1.weight"]
    one, _ = editable_layers(network(), batch_for(4), parameters="3.*")
    assert [layer.name for layer in one] == ["3"]


def test_a_pattern_that_matches_nothing_names_near_parameters() -> None:
    with pytest.raises(InvalidRequest, match=r"no parameters 3\.wieght; did you mean 3\.weight"):
        editable_layers(network(), batch_for(4), parameters=["3.wieght"])
    with pytest.raises(InvalidRequest, match=r"no parameters head\.\*"):
        editable_layers(network(), batch_for(4), parameters=["0.*", "head.*"])


def test_a_pattern_that_matches_only_what_cannot_be_confined_says_why() -> None:
    with pytest.raises(InvalidRequest, match=r"1\.bias: LayerNorm\.bias.*1\.weight: LayerNorm\.weight"):
        editable_layers(network(), batch_for(4), parameters=["1.*"])


class InPlace(nn.Module):
    """A network that prepares its inputs where they are."""

    def __init__(self, prepare: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.prepare, self.out = prepare, nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.prepare(x))


def test_a_model_that_overwrites_its_inputs_is_refused() -> None:
    """Unless it makes the same of them the next time. The samples themselves are as they were."""
    batch = Batch(torch.randn(8, 5, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 3)
    before = batch.inputs.clone()
    with pytest.raises(UnsupportedModel, match="overwrites its inputs"):
        count_classes(InPlace(lambda x: x.mul_(0.5)), batch)
    assert count_classes(InPlace(lambda x: x.clamp_(min=0)), batch) == 3
    assert count_classes(InPlace(lambda x: x * 0.5), batch) == 3
    assert torch.equal(batch.inputs, before)
