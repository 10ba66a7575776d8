"""Rows times the transposed matrix is what the module returns, however it is called."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from unsc.layers import Draw, Layer, check_layers, find_layers, observe

CONVOLUTION = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def observed(model: nn.Module, *args: Any, chunk_bytes: int = 256 << 20, **kwargs: Any) -> tuple[Any, dict, dict]:
    """The model's output, and for every layer its description and its rows, one tensor for each chunk."""
    layers = {layer.name: layer for layer in find_layers(model).layers}
    rows: dict[str, list[Tensor]] = defaultdict(list)
    with observe(model, layers.values(), lambda layer, x: rows[layer.name].append(x), chunk_bytes=chunk_bytes):
        output = model(*args, **kwargs)
    return output, layers, rows


def mapped(model: nn.Module, layer: Layer, rows: list[Tensor]) -> Tensor:
    """`rows @ [W | b].T`, (groups, n, outputs)."""
    return torch.cat(rows, dim=1) @ layer.matrix(dict(model.named_parameters())).mT


def hooks_of(model: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[nn.Module, Tensor]:
    """Any convolution and an input that it accepts; inputs of five and more fit every kernel and padding."""
    dims, groups = draw(st.integers(1, 3)), draw(st.integers(1, 3))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(dims))

    kernel, dilation, stride = each(1, 3), each(1, 2), each(1, 3)
    padding = draw(st.sampled_from(["same", "valid", "numbers"]))
    if padding == "same":
        stride = (1,) * dims
    torch.manual_seed(draw(st.integers(0, 1000)))
    module = CONVOLUTION[dims](
        groups * draw(st.integers(1, 2)),
        groups * draw(st.integers(1, 2)),
        kernel,
        stride=stride,
        padding=each(0, 2) if padding == "numbers" else padding,
        dilation=dilation,
        groups=groups,
        bias=draw(st.booleans()),
        padding_mode=draw(st.sampled_from(["zeros", "reflect", "replicate", "circular"])),
        dtype=torch.float64,
    )
    return module, torch.randn(draw(st.integers(1, 2)), module.in_channels, *each(5, 6), dtype=torch.float64)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@settings(max_examples=80, deadline=None, derandomize=True)
@given(convolutions())
def test_rows_times_matrix_is_the_convolution(case: tuple[nn.Module, Tensor]) -> None:
    """For every convolution, row by row in the order of samples and positions."""
    module, x = case
    output, layers, rows = observed(module, x)
    expected = output.reshape(len(x), module.groups, layers[""].outputs, -1).permute(1, 0, 3, 2).flatten(1, 2)
    torch.testing.assert_close(mapped(module, layers[""], rows[""]), expected)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(convolutions(), st.integers(1, 4000))
@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_chunks_join_to_the_same_rows(case: tuple[nn.Module, Tensor], chunk_bytes: int) -> None:
    """Chunking splits the rows and changes neither their values nor their order."""
    module, x = case
    whole, chunked = observed(module, x)[2][""], observed(module, x, chunk_bytes=chunk_bytes)[2][""]
    assert len(whole) == 1
    assert torch.equal(torch.cat(chunked, dim=1), whole[0])


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_a_single_sample_needs_no_batch_dimension(dims: int) -> None:
    """A convolution's input without batch dimension gives the rows of a batch of one."""
    module = CONVOLUTION[dims](2, 4, 3, padding=1, groups=2)
    x = torch.randn(2, *(5, 4, 3)[:dims])
    alone, together = observed(module, x)[2][""], observed(module, x[None])[2][""]
    assert torch.equal(alone[0], together[0])


def test_a_chunk_is_no_larger_than_asked() -> None:
    """No chunk exceeds the limit where single rows are smaller than it; one byte gives a row at a time."""
    module, x = nn.Linear(3, 2), torch.randn(4, 5, 3)
    limit = 3 * 4 * 4  # three rows of four columns of four bytes
    chunks = observed(module, x, chunk_bytes=limit)[2][""]
    assert [chunk.shape[1] for chunk in chunks] == [3] * 6 + [2]
    assert len(observed(module, x, chunk_bytes=1)[2][""]) == 20


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 4, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_rows_times_matrix_is_the_linear_map(shape: tuple[int, ...], bias: bool) -> None:
    """For inputs with any number of leading dimensions, given by position or by name."""
    module, x = nn.Linear(3, 5, bias=bias), torch.randn(shape)
    for output, layers, rows in (observed(module, x), observed(module, input=x)):
        torch.testing.assert_close(mapped(module, layers[""], rows[""])[0], output.reshape(-1, 5))


def test_rows_times_matrix_is_hugging_faces_conv1d() -> None:
    """The transposed linear map of Hugging Face's GPT-2."""
    pytest.importorskip("transformers")
    from transformers.pytorch_utils import Conv1D

    module, x = Conv1D(5, 3), torch.randn(2, 4, 3)
    nn.init.normal_(module.bias)
    output, layers, rows = observed(module, x)
    torch.testing.assert_close(mapped(module, layers[""], rows[""])[0], output.reshape(-1, 5))


@pytest.mark.parametrize("module", [nn.Linear(3, 4), nn.Conv2d(4, 6, 3, padding=1, stride=2, groups=2)])
def test_the_matrix_of_the_gradients_is_output_gradients_times_rows(module: nn.Module) -> None:
    """Backpropagation agrees: the gradient's matrix is the sum over rows of output gradient times row."""
    x = torch.randn(2, 4, 5, 5) if isinstance(module, nn.Conv2d) else torch.randn(6, 3)
    _, layers, rows = observed(module, x)
    module.zero_grad()
    output = module(x)
    upstream = torch.randn_like(output)
    output.backward(upstream)
    layer = layers[""]
    if isinstance(module, nn.Conv2d):
        upstream = upstream.reshape(2, layer.groups, layer.outputs, -1).permute(1, 0, 3, 2).flatten(1, 2)
    gradients = {name: p.grad for name, p in module.named_parameters()}
    torch.testing.assert_close(
        layer.matrix(gradients), upstream.reshape(layer.groups, -1, layer.outputs).mT @ rows[""][0]
    )


def attention_by_hand(module: nn.MultiheadAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Softmax attention of projected (n, length, embedding) queries, keys and values, heads joined."""
    heads = [t.unflatten(-1, (module.num_heads, -1)).transpose(1, 2) for t in (q, k, v)]
    scores = heads[0] @ heads[1].mT / math.sqrt(module.head_dim)
    return (scores.softmax(dim=-1) @ heads[2]).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("widths", [{}, {"kdim": 3, "vdim": 5}], ids=["packed", "separate"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("batch_first", [True, False], ids=["batch first", "length first"])
@pytest.mark.parametrize("by_name", [True, False], ids=["by name", "by position"])
def test_rows_of_an_attention_rebuild_it(widths: dict, bias: bool, batch_first: bool, by_name: bool) -> None:
    """Softmax attention between the mapped q, k and v rows is the output layer's rows; mapped, the output."""
    module = nn.MultiheadAttention(4, 2, bias=bias, batch_first=batch_first, **widths).eval()
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    n, queries, keys = 2, 3, 5
    inputs = {
        "query": torch.randn(n, queries, 4),
        "key": torch.randn(n, keys, widths.get("kdim", 4)),
        "value": torch.randn(n, keys, widths.get("vdim", 4)),
    }
    given_inputs = {name: x if batch_first else x.transpose(0, 1) for name, x in inputs.items()}
    query, key, value = given_inputs.values()
    seen = observed(module, query=query, key=key, value=value) if by_name else observed(module, query, key, value)
    (output, _), layers, rows = seen
    out_rows = torch.cat(rows["out_proj"], dim=1)[0]
    torch.testing.assert_close(mapped(module, layers["out_proj"], rows["out_proj"])[0], output.reshape(-1, 4))

    def sequences(flat: Tensor, length: int) -> Tensor:
        return flat.reshape(n, length, -1) if batch_first else flat.reshape(length, n, -1).transpose(0, 1)

    lengths = {"q": queries, "k": keys, "v": keys}
    q, k, v = (sequences(mapped(module, layers[r], rows[r])[0], length) for r, length in lengths.items())
    torch.testing.assert_close(sequences(out_rows[:, :4], queries), attention_by_hand(module, q, k, v))
    assert out_rows.shape[1] == 4 + bias


def test_an_attention_mask_reaches_the_output_rows() -> None:
    """The output layer's rows are those of the masked attention that the model itself ran."""
    module, x = nn.MultiheadAttention(4, 2, batch_first=True).eval(), torch.randn(2, 5, 4)
    hidden = torch.tensor([[False] * 5, [False, False, False, True, True]])
    (output, _), layers, rows = observed(module, x, x, x, key_padding_mask=hidden, need_weights=False)
    torch.testing.assert_close(mapped(module, layers["out_proj"], rows["out_proj"])[0], output.reshape(-1, 4))
    assert not torch.allclose(output, module(x, x, x)[0])


def test_a_module_called_twice_hands_over_rows_twice() -> None:
    """Each call of a reused module gives its own rows."""

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.step(self.step(x).relu())

    model, x = Twice(), torch.randn(4, 3)
    _, _, rows = observed(model, x)
    first, second = rows["step"]
    torch.testing.assert_close(first[0, :, :3], x)
    torch.testing.assert_close(second[0, :, :3], model.step(x).relu())


def test_modules_that_share_a_weight_mark_their_own_bias() -> None:
    """With a common weight and two biases, a row has its 1 in the column of its own module's bias."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    x = torch.randn(4, 3)
    output, layers, rows = observed(model, x)
    first, second = rows["0"]
    assert torch.equal(first[0, :, 3:], torch.tensor([[1.0, 0.0]]).expand(4, 2))
    assert torch.equal(second[0, :, 3:], torch.tensor([[0.0, 1.0]]).expand(4, 2))
    torch.testing.assert_close(mapped(model, layers["0"], [second])[0], output)


def test_convolutions_that_share_a_weight_bring_their_own_windows() -> None:
    """With a common weight, each convolution's rows follow its own stride and padding."""
    model = nn.Sequential(nn.Conv1d(2, 2, 3, padding=1), nn.Conv1d(2, 2, 3, stride=2, bias=False))
    model[1].weight = model[0].weight
    output, layers, rows = observed(model, torch.randn(2, 2, 7))
    first, second = rows["0"]
    assert (first.shape[1], second.shape[1]) == (14, 6)
    torch.testing.assert_close(mapped(model, layers["0"], [second])[0], output.transpose(1, 2).reshape(-1, 2))


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_transformer_block_is_observed_completely(norm_first: bool) -> None:
    """In evaluation mode too, where a fused path would skip the submodules, every layer hands over its rows."""
    block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first).eval()
    x = torch.randn(2, 5, 8)
    fast = torch.backends.mha.get_fastpath_enabled()
    with torch.no_grad():
        expected = block(x)
    output, layers, rows = observed(block, x)
    assert {name: torch.cat(parts, 1).shape[1] for name, parts in rows.items()} == dict.fromkeys(layers, 10)
    assert len(layers) == 6
    torch.testing.assert_close(output, expected)
    assert torch.backends.mha.get_fastpath_enabled() is fast

    after_attention = x + mapped(block, layers["self_attn.out_proj"], rows["self_attn.out_proj"]).reshape(x.shape)
    normed = after_attention if norm_first else block.norm1(after_attention)
    result = normed + mapped(block, layers["linear2"], rows["linear2"]).reshape(x.shape)
    torch.testing.assert_close(result if norm_first else block.norm2(result), output)


@pytest.mark.filterwarnings("ignore:.*nested tensors")
def test_padded_sequences_are_observed_completely() -> None:
    """A stack of blocks would drop padding from its sequences in evaluation mode; all positions are rows here."""
    block = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.TransformerEncoder(block, 2, enable_nested_tensor=True).eval()
    x, padding = torch.randn(2, 5, 8), torch.tensor([[False] * 5, [False, False, False, True, True]])
    with torch.no_grad():
        expected = model(x, src_key_padding_mask=padding)
    output, layers, rows = observed(model, x, src_key_padding_mask=padding)
    assert {name: torch.cat(parts, 1).shape[1] for name, parts in rows.items()} == dict.fromkeys(layers, 10)
    assert len(layers) == 12
    torch.testing.assert_close(output[~padding], expected[~padding])


def test_observing_does_not_change_the_output() -> None:
    """Outputs, parameters and gradients stay as they were; no hook remains."""
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(12, 4))
    x = torch.randn(3, 2, 4, 4)
    expected = model(x).detach()
    state = {name: t.clone() for name, t in model.state_dict().items()}
    output, _, _ = observed(model, x)
    assert torch.equal(output, expected)
    assert all(torch.equal(t, state[name]) for name, t in model.state_dict().items())
    assert not output.requires_grad
    assert hooks_of(model) == 0


class Failing(nn.Module):
    """Calls a layer, then raises."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        self.layer(x)
        raise RuntimeError("broken")


@pytest.mark.parametrize("way", ["observe", "check"])
def test_hooks_are_removed_when_the_forward_pass_raises(way: str) -> None:
    """An exception leaves no hook and no setting behind."""
    model, x = Failing(), torch.randn(2, 3)
    layers = find_layers(model).layers
    fast = torch.backends.mha.get_fastpath_enabled()
    with pytest.raises(RuntimeError, match="broken"):
        if way == "check":
            check_layers(model, layers, lambda: model(x))
        else:
            observed(model, x)
    assert hooks_of(model) == 0
    assert torch.backends.mha.get_fastpath_enabled() is fast
    assert torch.is_grad_enabled()


def test_hooks_are_removed_when_the_receiver_raises() -> None:
    """A receiver that fails leaves no hook behind either."""
    model = nn.MultiheadAttention(4, 2)

    def receive(layer: Layer, rows: Tensor) -> None:
        raise RuntimeError(layer.name)

    x = torch.randn(3, 4)
    with pytest.raises(RuntimeError, match="q"), observe(model, find_layers(model).layers, receive):
        model(x, x, x)
    assert hooks_of(model) == 0


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@settings(max_examples=40, deadline=None, derandomize=True)
@given(convolutions(), st.integers(1, 9), st.sampled_from([1, 1 << 20]))
def test_drawn_rows_are_those_rows_of_all(case: tuple[nn.Module, Tensor], count: int, chunk_bytes: int) -> None:
    """Gathered alone, scaled, and in chunks of any size: what indexing all rows gives."""
    module, x = case
    (layer,) = find_layers(module).layers
    every = torch.cat(observed(module, x)[2][layer.name], dim=1)
    draw = Draw(torch.randint(every.shape[1], (count,)), torch.rand(count, dtype=torch.float64))
    found: list[Tensor] = []
    with observe(module, [layer], lambda _, r: found.append(r), chunk_bytes=chunk_bytes, draw=lambda _, n: draw):
        module(x)
    assert torch.equal(torch.cat(found, dim=1), every[:, draw.chosen] * draw.scale[:, None])


def test_a_draw_knows_how_many_rows_there_are() -> None:
    """All positions of all samples; None takes them all."""
    module, asked = nn.Conv2d(2, 3, 3, padding=1), []
    rows: list[Tensor] = []
    (layer,) = find_layers(module).layers
    with observe(module, [layer], lambda _, r: rows.append(r), draw=lambda x, n: asked.append((x.name, n))):
        module(torch.randn(4, 2, 5, 5))
    assert asked == [("", 100)]
    assert sum(r.shape[1] for r in rows) == 100
