"""Recurrent layers: their rows are the inputs and hidden states of every time step, however the module is called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from unsc.layers import Layer, check_layers, find_layers, observe, parameters_of

MODULES: dict[str, Callable[..., nn.RNNBase]] = {
    "LSTM": nn.LSTM,
    "GRU": nn.GRU,
    "RNN": nn.RNN,
    "RNN, relu": lambda *sizes, **options: nn.RNN(*sizes, nonlinearity="relu", **options),
    "LSTM, projected": lambda *sizes, **options: nn.LSTM(*sizes, proj_size=6, **options),
}
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "batch first": {"batch_first": True},
    "without bias": {"bias": False},
    "deep": {"num_layers": 3, "dropout": 0.5},
    "both ways": {"bidirectional": True},
    "deep, both ways, batch first": {"num_layers": 2, "bidirectional": True, "batch_first": True},
}
CELLS = {"LSTMCell": nn.LSTMCell, "GRUCell": nn.GRUCell, "RNNCell": nn.RNNCell}

modules = pytest.mark.parametrize("make", MODULES.values(), ids=MODULES.keys())
shapes = pytest.mark.parametrize("options", SHAPES.values(), ids=SHAPES.keys())
inputs = pytest.mark.parametrize("kind", ["tensor", "one sample", "packed", "packed, unsorted"])

WIDTH, HIDDEN = 9, 12


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def sequences(kind: str, batch_first: bool) -> Tensor | PackedSequence:
    """Few enough steps that not all directions are taken; three samples of at most three steps."""
    x = torch.randn(3, 3, WIDTH, dtype=torch.float64)
    if kind == "tensor":
        return x[:, :2]
    if kind == "one sample":
        return x[0]
    lengths = torch.tensor([1, 3, 1] if "unsorted" in kind else [3, 1, 1])
    return pack_padded_sequence(x, lengths, batch_first=batch_first, enforce_sorted="unsorted" not in kind)


def made(make: Callable[..., nn.RNNBase], **options: Any) -> nn.RNNBase:
    return make(WIDTH, HIDDEN, **options).double().eval()


def rows_of(model: nn.Module, *args: Any, **kwargs: Any) -> tuple[dict[str, Layer], dict[str, Tensor]]:
    """Each layer and its rows, (n, columns)."""
    layers = {layer.name: layer for layer in find_layers(model).layers}
    found: dict[str, list[Tensor]] = defaultdict(list)
    with observe(model, layers.values(), lambda layer, rows: found[layer.name].append(rows[0])):
        model(*args, **kwargs)
    return layers, {name: torch.cat(parts) for name, parts in found.items()}


def numbers(output: Any) -> Tensor:
    """All that a module returned, in one vector."""
    if isinstance(output, Tensor):
        return output.flatten()
    if isinstance(output, PackedSequence):
        return output.data.flatten()
    return torch.cat([numbers(part) for part in output])


@modules
@shapes
def test_every_parameter_is_in_a_layer(make: Callable[..., nn.RNNBase], options: dict[str, Any]) -> None:
    """Each entry once: two matrices for each layer and direction, and the projection."""
    model = made(make, **options)
    found = find_layers(model)
    assert found.frozen == {}
    assert sum(x.groups * x.outputs * x.columns for x in found.layers) == sum(p.numel() for p in model.parameters())
    assert all(len(layer.biases) <= 1 for layer in found.layers)


@modules
@shapes
@inputs
def test_an_edit_that_no_row_sees_leaves_all_outputs_alone(
    make: Callable[..., nn.RNNBase], options: dict[str, Any], kind: str
) -> None:
    """All weights of all layers and directions move at once, by a lot; what the module returns does not."""
    model = made(make, **options)
    x, other = (sequences(kind, options.get("batch_first", False)) for _ in range(2))
    layers, rows = rows_of(model, x)
    assert check_layers(model, layers.values(), lambda: model(x)) == {}
    before, others_before = numbers(model(x)), numbers(model(other))
    parameters = parameters_of(model, layers.values())
    for name, layer in layers.items():
        direction = torch.randn(1, layer.outputs, layer.columns, dtype=torch.float64)
        direction -= direction @ torch.linalg.pinv(rows[name]) @ rows[name]
        assert direction.norm() > 1  # there are directions left
        layer.write(layer.matrix(parameters) + direction, parameters)
    torch.testing.assert_close(numbers(model(x)), before)
    assert (numbers(model(other)) - others_before).abs().max() > 1e-2


@modules
@shapes
@inputs
def test_gradients_are_made_of_rows(make: Callable[..., nn.RNNBase], options: dict[str, Any], kind: str) -> None:
    """Backpropagation agrees: the gradient of any loss by a matrix is in the span of its rows, and spans no less."""
    model, x = made(make, **options), sequences(kind, options.get("batch_first", False))
    layers, rows = rows_of(model, x)
    output = numbers(model(x))
    named = dict(model.named_parameters())
    found: dict[str, list[Tensor]] = defaultdict(list)
    for _ in range(4):
        grads = torch.autograd.grad(output @ torch.randn_like(output), list(named.values()), retain_graph=True)
        for name, layer in layers.items():
            found[name].append(layer.matrix(dict(zip(named, grads, strict=True)))[0])
    for name, gradients in found.items():
        together, span = torch.cat(gradients), rows[name]
        torch.testing.assert_close(together @ torch.linalg.pinv(span) @ span, together)
        if "relu" not in str(model):  # units that are off have no gradient
            assert torch.linalg.matrix_rank(together) == torch.linalg.matrix_rank(span)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_rows_are_the_states_that_a_cell_goes_through(name: str) -> None:
    """A loop over time with PyTorch's own cell has the same inputs and hidden states, from a given first state."""
    model, cell = made(MODULES[name]), getattr(nn, f"{name}Cell")(WIDTH, HIDDEN).double()
    cell.load_state_dict({key.removesuffix("_l0"): value for key, value in model.state_dict().items()})
    x = torch.randn(5, 2, WIDTH, dtype=torch.float64)
    first = tuple(torch.randn(2, HIDDEN, dtype=torch.float64) for _ in range(2 if name == "LSTM" else 1))
    state: Any = first if name == "LSTM" else first[0]
    seen = []
    for step in x:
        seen.append(state[0] if name == "LSTM" else state)
        state = cell(step, state)
    given = tuple(s[None] for s in first) if name == "LSTM" else first[0][None]
    _, rows = rows_of(model, x, hx=given)
    one = torch.ones(10, 1, dtype=torch.float64)
    torch.testing.assert_close(rows["ih_l0"], torch.cat([x.reshape(10, WIDTH), one], dim=1))
    torch.testing.assert_close(rows["hh_l0"], torch.cat([torch.cat(seen), one], dim=1))


@pytest.mark.parametrize("shape", [{}, {"bidirectional": True}])
def test_packed_sequences_have_the_rows_of_their_real_steps_alone(shape: dict[str, Any]) -> None:
    """Those of each sample by itself, and none for padding."""
    model = made(nn.LSTM, num_layers=2, **shape)
    x, lengths = torch.randn(4, 3, WIDTH, dtype=torch.float64), [2, 4, 1]
    states = tuple(torch.randn(2 * len(shape) + 2, 3, HIDDEN, dtype=torch.float64) for _ in range(2))
    packed = pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=False)
    _, together = rows_of(model, packed, states)
    alone = [rows_of(model, x[:n, i], tuple(s[:, i] for s in states))[1] for i, n in enumerate(lengths)]
    for name, rows in together.items():
        expected = torch.cat([part[name] for part in alone])
        assert len(rows) == 7
        torch.testing.assert_close(rows.T @ rows, expected.T @ expected)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batched", [True, False])
def test_a_cell_has_the_rows_of_each_of_its_calls(name: str, bias: bool, batched: bool) -> None:
    """A network that loops over time itself: rows are inputs and states, and gradients are made of them."""

    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = CELLS[name](WIDTH, HIDDEN, bias=bias).double()

        def forward(self, x: Tensor) -> Tensor:
            state = self.cell(x[0])
            for step in x[1:]:
                state = self.cell(step, state)
            return state[0] if isinstance(state, tuple) else state

    model = Loop()
    x = torch.randn(3, 2, WIDTH, dtype=torch.float64)
    x = x if batched else x[:, 0]
    layers, rows = rows_of(model, x)
    assert len(rows["cell.ih"]) == (6 if batched else 3)
    assert check_layers(model, layers.values(), lambda: model(x)) == {}
    model(x).square().sum().backward()
    gradients: dict[str, Tensor] = {key: p.grad for key, p in model.named_parameters() if p.grad is not None}
    for key, layer in layers.items():
        gradient = layer.matrix(gradients)[0]
        torch.testing.assert_close(gradient @ torch.linalg.pinv(rows[key]) @ rows[key], gradient)


class Residual(nn.GRU):
    """A recurrent module that adds something to what it returns."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        output, state = super().forward(*args, **kwargs)
        return output + 0.1, state


class Alone(nn.LSTM):
    """A recurrent module that returns only its outputs, as a tensor."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return super().forward(*args, **kwargs)[0]


def test_what_returns_something_else_is_flagged() -> None:
    """A subclass that adds to its outputs fails the check, in all of its layers."""
    model, x = Residual(3, 4), torch.randn(5, 2, 3)
    failed = check_layers(model, find_layers(model).layers, lambda: model(x))
    assert failed.keys() == {"ih_l0", "hh_l0"}
    assert "Residual" in failed["ih_l0"]


def test_outputs_may_come_without_states() -> None:
    model, x = Alone(3, 4), torch.randn(5, 2, 3)
    assert check_layers(model, find_layers(model).layers, lambda: model(x)) == {}


def test_a_frozen_part_stays_and_the_rest_is_edited() -> None:
    """A user may freeze the recurrent weight alone; its bias then stays too."""
    model = nn.LSTM(3, 4)
    model.weight_hh_l0.requires_grad_(False)
    found = find_layers(model)
    assert [layer.name for layer in found.layers] == ["ih_l0"]
    assert found.frozen["weight_hh_l0"] == "requires_grad is False"
    assert found.frozen.keys() == {"weight_hh_l0", "bias_hh_l0"}
    x = torch.randn(5, 2, 3)
    assert check_layers(model, found.layers, lambda: model(x)) == {}
