"""Which parameters become layers, which are frozen and why, and that a layer's matrix is its parameters."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from unsc.layers import Layer, find_layers


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class Scaled(nn.Linear):
    """A user's own kind of linear layer."""


class PatchConv(nn.Conv2d):
    """A user's own kind of convolution."""


def _hugging_face_conv1d() -> nn.Module:
    pytest.importorskip("transformers")
    from transformers.pytorch_utils import Conv1D

    return Conv1D(5, 3)


KINDS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(3, 5),
    "linear without bias": lambda: nn.Linear(3, 5, bias=False),
    "linear subclass": lambda: Scaled(3, 5),
    "conv1d": lambda: nn.Conv1d(3, 4, 2),
    "conv2d": lambda: nn.Conv2d(3, 4, (2, 3)),
    "conv2d without bias": lambda: nn.Conv2d(3, 4, 2, bias=False),
    "conv2d subclass": lambda: PatchConv(3, 4, 2),
    "conv3d": lambda: nn.Conv3d(2, 3, (1, 2, 3)),
    "grouped conv2d": lambda: nn.Conv2d(4, 6, 3, groups=2),
    "depthwise conv1d": lambda: nn.Conv1d(4, 8, 3, groups=4),
    "attention": lambda: nn.MultiheadAttention(4, 2),
    "attention, batch first": lambda: nn.MultiheadAttention(4, 2, batch_first=True),
    "attention without bias": lambda: nn.MultiheadAttention(4, 2, bias=False),
    "attention with other keys": lambda: nn.MultiheadAttention(4, 2, kdim=3, vdim=5),
    "attention with other keys, without bias": lambda: nn.MultiheadAttention(4, 2, kdim=3, vdim=5, bias=False),
    "attention with other values": lambda: nn.MultiheadAttention(4, 2, vdim=5),
    "hugging face conv1d": _hugging_face_conv1d,
    "embedding": lambda: nn.Embedding(7, 3),
    "embedding bag": lambda: nn.EmbeddingBag(7, 3),
    "embedding bag of many": lambda: nn.EmbeddingBag(5000, 2),
    "lstm": lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True, proj_size=2),
    "gru cell": lambda: nn.GRUCell(3, 4),
    "grouped transposed convolution": lambda: nn.ConvTranspose2d(4, 6, (2, 3), groups=2),
}

kinds = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS.keys())


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    return dict(model.named_parameters())


def only_layer(model: nn.Module) -> Layer:
    (layer,) = find_layers(model).layers
    return layer


def shared(first: nn.Module, second: nn.Module, *attributes: str) -> nn.Sequential:
    """Two modules in a row; the second takes over the first one's parameters."""
    for attribute in attributes:
        setattr(second, attribute, getattr(first, attribute))
    return nn.Sequential(first, second)


@kinds
def test_every_parameter_of_a_supported_module_is_in_a_layer(make: Callable[[], nn.Module]) -> None:
    """Layers cover each entry of each parameter exactly once, whatever the kind of module."""
    model = nn.Sequential(make())
    found = find_layers(model)
    assert found.frozen == {}
    assert {name for layer in found.layers for name in layer.parameters} == parameters_of(model).keys()
    entries = sum(layer.groups * layer.outputs * layer.columns for layer in found.layers)
    assert entries == sum(p.numel() for p in model.parameters())


@kinds
def test_writing_a_layers_own_matrix_changes_nothing(make: Callable[[], nn.Module]) -> None:
    """`write` after `matrix` is the identity on the parameters, bit for bit."""
    model = make()
    parameters = parameters_of(model)
    before = {name: p.detach().clone() for name, p in parameters.items()}
    for layer in find_layers(model).layers:
        matrix = layer.matrix(parameters).detach().clone()
        assert matrix.shape == (layer.groups, layer.outputs, layer.columns)
        layer.write(matrix, parameters)
    assert all(torch.equal(before[name], p) for name, p in parameters.items())


@kinds
def test_a_written_matrix_is_read_back(make: Callable[[], nn.Module]) -> None:
    """`matrix` after `write` is the identity on matrices, for all of a module's layers at once."""
    model = make()
    parameters = parameters_of(model)
    layers = find_layers(model).layers
    written = {x.name: torch.randn(x.groups, x.outputs, x.columns) for x in layers}
    for layer in layers:
        layer.write(written[layer.name], parameters)
    assert len(written) == len(layers)
    assert all(torch.equal(layer.matrix(parameters), written[layer.name]) for layer in layers)


@kinds
def test_a_description_serves_copies(make: Callable[[], nn.Module]) -> None:
    """A layer names parameters and holds none: a copy of the model has equal descriptions."""
    model = nn.Sequential(make())
    assert find_layers(copy.deepcopy(model)) == find_layers(model)


@pytest.mark.parametrize("transposed", [False, True])
def test_the_matrix_of_a_linear_map_is_weight_and_bias_side_by_side(transposed: bool) -> None:
    """Writing `[W | b]` makes the module compute `x @ W.T + b`, also where the weight is stored transposed."""
    model = _hugging_face_conv1d() if transposed else nn.Linear(3, 5)
    layer = only_layer(model)
    assert layer.transposed is transposed
    matrix, x = torch.randn(1, 5, 4), torch.randn(7, 3)
    layer.write(matrix, parameters_of(model))
    assert torch.allclose(model(x), x @ matrix[0, :, :3].T + matrix[0, :, 3], atol=1e-6)


def test_packed_attention_is_cut_into_query_key_and_value() -> None:
    """The three thirds of the packed weight and bias are the query's, the key's and the value's, in this order."""
    model = nn.Sequential(nn.MultiheadAttention(4, 2))
    nn.init.normal_(model.get_parameter("0.in_proj_bias"))
    parameters = parameters_of(model)
    layers = {layer.name: layer for layer in find_layers(model).layers}
    assert list(layers) == ["0.q", "0.k", "0.v", "0.out_proj"]
    weights = model.get_parameter("0.in_proj_weight").chunk(3)
    biases = model.get_parameter("0.in_proj_bias").chunk(3)
    for role, weight, bias in zip("qkv", weights, biases, strict=True):
        matrix = layers[f"0.{role}"].matrix(parameters)[0]
        assert torch.equal(matrix, torch.cat([weight, bias[:, None]], dim=1))


def test_attention_with_other_keys_takes_the_weights_of_their_width() -> None:
    """With separate key and value widths each projection has its own weight and a third of the common bias."""
    model = nn.MultiheadAttention(4, 2, kdim=3, vdim=5)
    layers = {layer.name: layer for layer in find_layers(model).layers}
    assert {name: layer.inputs for name, layer in layers.items()} == {"q": 4, "k": 3, "v": 5, "out_proj": 4}
    assert layers["k"].weight.parameter == "k_proj_weight"
    assert [(b.start, b.stop) for b in layers["k"].biases] == [(4, 8)]


def test_extra_key_and_value_of_an_attention_are_frozen() -> None:
    """An attention's learned extra key and value are no matrix; the rest of it stays editable."""
    found = find_layers(nn.MultiheadAttention(4, 2, add_bias_kv=True))
    assert found.frozen.keys() == {"bias_k", "bias_v"}
    assert len(found.layers) == 4


def test_modules_that_share_a_weight_are_one_layer() -> None:
    """A weight and bias shared by two modules are one layer with two uses and a single bias column."""
    model = shared(nn.Linear(3, 3), nn.Linear(3, 3), "weight", "bias")
    layer = only_layer(model)
    assert [use.module for use in layer.uses] == ["0", "1"]
    assert layer.columns == 4
    assert layer.parameters == ("0.weight", "0.bias")


def test_modules_that_share_a_weight_keep_their_own_biases() -> None:
    """A common weight with two biases is one matrix with two bias columns, each written to its own place."""
    model = shared(nn.Linear(3, 3), nn.Linear(3, 3), "weight")
    layer = only_layer(model)
    assert layer.columns == 5
    matrix = torch.randn(1, 3, 5)
    layer.write(matrix, parameters_of(model))
    assert torch.equal(model.get_parameter("0.bias"), matrix[0, :, 3])
    assert torch.equal(model.get_parameter("1.bias"), matrix[0, :, 4])


def test_convolutions_that_differ_in_stride_share_a_layer() -> None:
    """Stride and padding belong to the rows, not to the matrix: such convolutions are one layer."""
    model = shared(nn.Conv2d(2, 2, 3), nn.Conv2d(2, 2, 3, stride=2, padding=1, bias=False), "weight")
    assert len(only_layer(model).uses) == 2


def test_a_weight_shared_by_unlike_layers_is_frozen() -> None:
    """One weight read with one and with two groups is two different matrices, so neither may move it."""
    model = shared(nn.Conv1d(2, 4, 3, bias=False), nn.Conv1d(4, 4, 3, groups=2), "weight")
    model.append(nn.Conv1d(4, 4, 1))
    model[2].bias = model[1].bias
    found = find_layers(model)
    assert [layer.name for layer in found.layers] == ["2"]
    assert "unlike" in found.frozen["0.weight"]
    assert "1.bias" in found.frozen, "the frozen layer's bias would move with the third layer"
    assert found.layers[0].biases == ()


def test_a_weight_read_both_ways_round_is_frozen() -> None:
    """A square weight used as W by one module and as its transpose by another cannot be confined."""
    pytest.importorskip("transformers")
    from transformers.pytorch_utils import Conv1D

    found = find_layers(shared(nn.Linear(3, 3), Conv1D(3, 3), "weight"))
    assert found.layers == ()
    assert "unlike" in found.frozen["0.weight"]


def test_a_parameter_shared_in_part_is_frozen() -> None:
    """No entry belongs to two layers, even if one takes all of a parameter and another a third of it."""
    attention, linear = nn.MultiheadAttention(4, 2), nn.Linear(4, 12)
    linear.weight, linear.bias = attention.in_proj_weight, attention.in_proj_bias
    found = find_layers(nn.ModuleList([attention, linear]))
    assert [layer.name for layer in found.layers] == ["0.out_proj"]
    assert found.frozen.keys() == {"0.in_proj_weight", "0.in_proj_bias"}


def test_a_bias_shared_by_several_layers_is_frozen() -> None:
    """A bias that two different weights share would be moved by two rules; the weights alone remain."""
    found = find_layers(shared(nn.Linear(3, 3), nn.Linear(3, 3), "bias"))
    assert [layer.columns for layer in found.layers] == [3, 3]
    assert found.frozen == {"0.bias": "a bias shared by several layers"}


@pytest.mark.parametrize("embedding_first", [False, True])
def test_a_weight_tied_to_an_embedding_is_frozen(embedding_first: bool) -> None:
    """An embedding and a linear map would each move it by a rule of their own; order does not matter."""
    parts: dict[str, nn.Module] = {"tokens": nn.Embedding(5, 3), "body": nn.Linear(3, 3), "head": nn.Linear(3, 5)}
    parts["head"].weight = parts["tokens"].weight
    model = nn.ModuleDict(parts if embedding_first else dict(reversed(parts.items())))
    found = find_layers(model)
    assert [layer.name for layer in found.layers] == ["body"]
    tied = "tokens.weight" if embedding_first else "head.weight"
    assert found.frozen.keys() == {tied, "head.bias"}
    assert "shared by unlike layers" in found.frozen[tied]


def test_a_table_tied_in_part_is_frozen() -> None:
    """Padding is no part of a layer, so that two tables with other padding share their weight but for a vector."""
    model = shared(nn.Embedding(5, 3, padding_idx=0), nn.Embedding(5, 3, padding_idx=4), "weight")
    found = find_layers(model)
    assert found.layers == ()
    assert found.frozen == {"0.weight": "shared in part by unlike layers"}


def test_a_bias_that_also_serves_a_norm_is_frozen() -> None:
    """A bias shared with a norm stays, and its layer loses the bias column only."""
    found = find_layers(shared(nn.Linear(3, 3), nn.LayerNorm(3), "bias"))
    assert [layer.columns for layer in found.layers] == [3]
    assert found.frozen.keys() == {"0.bias", "1.weight"}


@pytest.mark.parametrize(
    "other", [nn.LayerNorm(3), nn.BatchNorm1d(3), nn.GroupNorm(1, 3), nn.PReLU(), nn.Bilinear(3, 3, 3)]
)
def test_other_modules_are_frozen_with_a_reason(other: nn.Module) -> None:
    """Parameters that no matrix multiplies are frozen, and the reason names module and attribute."""
    found = find_layers(nn.Sequential(nn.Linear(3, 3), other))
    assert [layer.name for layer in found.layers] == ["0"]
    kind = type(other).__name__
    assert found.frozen.keys() == {f"1.{name}" for name, _ in other.named_parameters()}
    assert all(f"{kind}.{name.removeprefix('1.')}" in reason for name, reason in found.frozen.items())


def test_a_weight_the_user_froze_stays() -> None:
    """Without a trainable weight there is no layer, and the bias has nothing to move with."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[0].weight.requires_grad_(False)
    found = find_layers(model)
    assert [layer.name for layer in found.layers] == ["1"]
    assert found.frozen == {"0.weight": "requires_grad is False", "0.bias": "a bias moves only with its weight"}


def test_a_bias_the_user_froze_stays() -> None:
    """A weight without its bias is still a layer, one column narrower."""
    model = nn.Conv2d(3, 4, 2)
    model.get_parameter("bias").requires_grad_(False)
    found = find_layers(model)
    assert [layer.columns for layer in found.layers] == [12]
    assert found.frozen == {"bias": "requires_grad is False"}


@pytest.mark.parametrize("name", ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"])
def test_a_part_of_an_attention_the_user_froze_stays(name: str) -> None:
    """Each of an attention's parameters can be frozen by itself, with the user's own reason."""
    model = nn.MultiheadAttention(4, 2)
    model.get_parameter(name).requires_grad_(False)
    found = find_layers(model)
    assert found.frozen[name] == "requires_grad is False"
    assert all(name not in layer.parameters for layer in found.layers)
    expected = {"in_proj_weight": 1, "in_proj_bias": 4, "out_proj.weight": 3, "out_proj.bias": 4}
    assert len(found.layers) == expected[name]


@pytest.mark.parametrize("lazy", [lambda: nn.LazyLinear(4), lambda: nn.LazyConv2d(4, 3)])
def test_layers_that_were_never_initialised_are_frozen(lazy: Callable[[], nn.Module]) -> None:
    """A lazy layer that has not seen data has no matrix yet."""
    found = find_layers(nn.Sequential(nn.Linear(3, 3), lazy()))
    assert [layer.name for layer in found.layers] == ["0"]
    assert found.frozen == {"1.weight": "never initialised", "1.bias": "never initialised"}


def test_a_lazy_layer_that_saw_data_is_a_layer() -> None:
    """Once initialised, a lazy layer is like any other."""
    model = nn.LazyLinear(4)
    model(torch.randn(2, 3))
    assert only_layer(model).columns == 4


def test_a_reparametrised_weight_is_frozen() -> None:
    """A weight computed from other parameters is not a parameter that could be written."""
    model = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
    found = find_layers(model)
    assert found.layers == ()
    assert found.frozen.keys() == parameters_of(model).keys()


def test_layers_and_frozen_parameters_partition_the_model() -> None:
    """Every parameter is either in a layer or frozen with a reason, never both."""
    block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.ModuleDict({"tokens": nn.Embedding(9, 8), "block": block, "head": nn.Linear(8, 3)})
    block.linear1.bias.requires_grad_(False)
    found = find_layers(model)
    covered = {name for layer in found.layers for name in layer.parameters}
    assert covered | found.frozen.keys() == parameters_of(model).keys()
    assert not covered & found.frozen.keys()
    assert all(found.frozen.values())
    assert len({layer.name for layer in found.layers}) == len(found.layers) == 8
