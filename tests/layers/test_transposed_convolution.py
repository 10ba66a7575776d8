"""Transposed convolutions: rows times the transposed matrix is the output, whatever the sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from unsc.layers import Layer, check_layers, find_layers, observe, parameters_of

CONVOLUTION = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}


def observed(model: nn.Module, *args: Any, chunk_bytes: int = 1 << 20, **kwargs: Any) -> tuple[Layer, Tensor, Tensor]:
    """The only layer, its rows, and what the model returned."""
    (layer,) = find_layers(model).layers
    chunks: list[Tensor] = []
    with observe(model, [layer], lambda _, rows: chunks.append(rows), chunk_bytes=chunk_bytes):
        output = model(*args, **kwargs)
    return layer, torch.cat(chunks, dim=1), output


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[nn.Module, Tensor]:
    """Any transposed convolution and an input that it accepts."""
    dims, groups = draw(st.integers(1, 3)), draw(st.integers(1, 2))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(dims))

    stride, dilation = each(1, 3), each(1, 2)
    extra = tuple(draw(st.integers(0, max(s, d) - 1)) for s, d in zip(stride, dilation, strict=True))
    torch.manual_seed(draw(st.integers(0, 1000)))
    module = CONVOLUTION[dims](
        groups * draw(st.integers(1, 2)),
        groups * draw(st.integers(1, 2)),
        each(1, 3),
        stride=stride,
        padding=each(0, 1),
        output_padding=extra,
        dilation=dilation,
        groups=groups,
        bias=draw(st.booleans()),
        dtype=torch.float64,
    )
    return module, torch.randn(draw(st.integers(1, 2)), module.in_channels, *each(3, 4), dtype=torch.float64)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(convolutions(), st.sampled_from([1, 1000, 1 << 20]))
def test_rows_times_matrix_is_the_output(case: tuple[nn.Module, Tensor], chunk_bytes: int) -> None:
    """Row by row in the order of samples and positions, in chunks of any size."""
    module, x = case
    layer, rows, output = observed(module, x, chunk_bytes=chunk_bytes)
    expected = output.reshape(len(x), layer.groups, layer.outputs, -1).permute(1, 0, 3, 2).flatten(1, 2)
    torch.testing.assert_close(rows @ layer.matrix(dict(module.named_parameters())).mT, expected)
    assert check_layers(module, [layer], lambda: module(x)) == {}


@settings(max_examples=30, deadline=None, derandomize=True)
@given(convolutions())
def test_the_matrix_of_the_gradients_is_output_gradients_times_rows(case: tuple[nn.Module, Tensor]) -> None:
    """Backpropagation agrees on the rows and on how the weight is stored."""
    module, x = case
    layer, rows, _ = observed(module, x)
    output = module(x)
    upstream = torch.randn_like(output)
    output.backward(upstream)
    gradients: dict[str, Tensor] = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    upstream = upstream.reshape(len(x), layer.groups, layer.outputs, -1).permute(1, 0, 3, 2).flatten(1, 2)
    torch.testing.assert_close(layer.matrix(gradients), upstream.mT @ rows)


def test_an_output_size_may_be_given_with_the_input() -> None:
    """Where a stride leaves it open how large the output is to be."""
    torch.manual_seed(0)
    module, x = nn.ConvTranspose2d(2, 3, 3, stride=3, dtype=torch.float64), torch.randn(2, 2, 4, 4).double()
    for size in ([13, 14], [2, 3, 14, 12]):
        layer, rows, output = observed(module, x, output_size=size)
        assert output.shape[2:] == tuple(size[-2:])
        torch.testing.assert_close(
            (rows @ layer.matrix(dict(module.named_parameters())).mT)[0], output.movedim(1, -1).reshape(-1, 3)
        )


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_a_single_sample_needs_no_batch_dimension(dims: int) -> None:
    torch.manual_seed(0)
    module, x = CONVOLUTION[dims](2, 4, 3, stride=2, groups=2), torch.randn(2, *(4, 3, 2)[:dims])
    assert torch.equal(observed(module, x)[1], observed(module, x[None])[1])


def test_an_edit_that_no_row_sees_leaves_outputs_alone() -> None:
    """The largest edit that does: any other part of a random direction would change a retained output."""
    torch.manual_seed(0)
    module = nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, groups=2, dtype=torch.float64)
    x = torch.randn(1, 8, 3, 2, dtype=torch.float64)
    layer, rows, before = observed(module, x)
    direction = torch.randn(2, 2, layer.columns, dtype=torch.float64)
    seen = direction @ torch.linalg.pinv(rows) @ rows
    parameters = parameters_of(module, [layer])
    original = layer.matrix(parameters).clone()
    layer.write(original + direction - seen, parameters)
    torch.testing.assert_close(module(x), before)
    layer.write(original + seen, parameters)
    assert (module(x) - before).norm() > 1
