"""LSTM, GRU and RNN, and their single cells: inputs and hidden states at every time step.

All gates of a time step are `x W_ih.T + b_ih` and `h W_hh.T + b_hh`, with x the input and h the hidden state before the
step, so a module brings two layers for each of its own layers and directions (and `W_hr`, where an LSTM projects its
hidden state). A change of the weights that is orthogonal to all rows leaves the first gates as they are, hence the
first hidden state, hence the next gates: outputs stay for sequences of any length.

Hidden states of inner layers are visible nowhere. The recurrence is run again, from the weights, and must end in what
the module returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from unsc.layers.call import Call
from unsc.layers.kind import Kind, Place
from unsc.layers.layer import Layer
from unsc.layers.registry import register
from unsc.layers.rows import Rows, flat

Cell: TypeAlias = nn.LSTMCell | nn.GRUCell | nn.RNNCell
Module: TypeAlias = nn.LSTM | nn.GRU | nn.RNN | Cell
State: TypeAlias = tuple[Tensor, ...]
"""The hidden state, and the cell state of an LSTM, (samples, units) each."""
Advance: TypeAlias = Callable[[Tensor, Tensor, State], State]
"""The next state from the two halves of the gates, (samples, gates * units), and the last one."""

_CELLS = (nn.LSTMCell, nn.GRUCell, nn.RNNCell)
_PROJECTION = "hr"


@register
class Recurrent(Kind[Module]):
    name = "LSTM, GRU, RNN and their cells"

    def modules(self) -> tuple[type[Module], ...]:
        return (nn.LSTM, nn.GRU, nn.RNN, *_CELLS)

    def layers(self, place: Place[Module]) -> Iterator[Layer | None]:
        for suffix in (suffix for level in _levels(place.module) for suffix in level):
            for part in ("ih", "hh", _PROJECTION):
                weight = getattr(place.module, f"weight_{part}{suffix}", None)
                if not isinstance(weight, Tensor):
                    continue
                outputs, inputs = weight.shape
                role = f"{part}{suffix}"
                views = place.view(f"weight_{role}"), place.view(f"bias_{role}")
                yield place.layer(*views, outputs=outputs, inputs=inputs, role=role, leaf=role)

    def rows(self, call: Call[Module], role: str) -> Rows:
        return flat(call.once(_unrolled).rows[role])

    def channels(self, module: Module) -> int:
        return -1

    def recomputed(self, call: Call[Module]) -> Tensor:
        return call.once(_unrolled).outputs

    def returned(self, call: Call[Module], role: str) -> object:
        output = call.output[0] if isinstance(call.output, tuple) and not _is_packed(call.output) else call.output
        return _in_steps(call.module, output).data if isinstance(output, Tensor | PackedSequence) else output

    def features(self, call: Call[Module]) -> Tensor | None:
        x = call.first
        if not isinstance(x, Tensor) or isinstance(call.module, _CELLS) or call.module.batch_first or x.dim() < 3:
            return x if isinstance(x, Tensor) else None
        return x.transpose(0, 1)


@dataclass(frozen=True)
class _Steps:
    """Sequences, packed: the first step of all samples, then the second of those that have one, the longest first."""

    data: Tensor
    """(steps of all samples, width)"""
    sizes: tuple[int, ...]
    """How many samples there are at each step."""
    order: Tensor | None = None
    """Where each sample is among those that came in, if they were sorted."""


@dataclass(frozen=True)
class _Unrolled:
    """What a recurrence computed on its way."""

    rows: dict[str, Tensor]
    """By role, (steps of all samples, columns)."""
    outputs: Tensor
    """Hidden states of the last layer, both directions side by side, (steps of all samples, units)."""


def _levels(module: Module) -> list[tuple[str, ...]]:
    """Layer by layer, what the parameters' names of each direction end with."""
    if isinstance(module, _CELLS):
        return [("",)]
    directions = ("", "_reverse") if module.bidirectional else ("",)
    return [tuple(f"_l{i}{direction}" for direction in directions) for i in range(module.num_layers)]


def _unrolled(call: Call[Module]) -> _Unrolled:
    module, steps = call.module, _in_steps(call.module, call.first)
    states = iter(_first_states(call, steps))
    rows: dict[str, Tensor] = {}
    x = steps.data
    for level in _levels(module):
        outputs: list[Tensor] = []
        for suffix in level:
            seen, output = _direction(module, suffix, x, steps.sizes, next(states))
            rows |= seen
            outputs.append(output)
        x = torch.cat(outputs, dim=1)
    return _Unrolled(rows, x)


def _direction(
    module: Module, suffix: str, x: Tensor, sizes: tuple[int, ...], first: State
) -> tuple[dict[str, Tensor], Tensor]:
    """Rows by role, and hidden states after each step, of one layer in one direction from its `first` state."""
    advance = _advance(module)
    projection = getattr(module, f"weight_hr{suffix}", None)
    gates = _product(module, f"ih{suffix}", x).split(sizes)
    before: list[Tensor] = list(gates)
    unprojected: list[Tensor] = list(gates)
    after: list[Tensor] = list(gates)
    state, order = first, range(len(sizes))
    for t in reversed(order) if suffix.endswith("_reverse") else order:
        # Samples end before others do; backwards, they begin after others did.
        state = tuple(
            torch.cat([s[: sizes[t]], start[len(s) : sizes[t]]]) for s, start in zip(state, first, strict=True)
        )
        before[t] = state[0]
        unprojected[t], *others = advance(gates[t], _product(module, f"hh{suffix}", before[t]), state)
        after[t] = unprojected[t] if projection is None else F.linear(unprojected[t], projection)
        state = (after[t], *others)
    rows = {f"ih{suffix}": x, f"hh{suffix}": torch.cat(before)}
    if projection is not None:
        rows[f"{_PROJECTION}{suffix}"] = torch.cat(unprojected)
    return rows, torch.cat(after)


def _product(module: Module, role: str, x: Tensor) -> Tensor:
    return F.linear(x, getattr(module, f"weight_{role}"), getattr(module, f"bias_{role}", None))


def _advance(module: Module) -> Advance:
    if isinstance(module, nn.LSTM | nn.LSTMCell):
        return _lstm
    if isinstance(module, nn.GRU | nn.GRUCell):
        return _gru
    return _tanh if module.nonlinearity == "tanh" else _relu


def _lstm(x: Tensor, h: Tensor, state: State) -> State:
    enter, keep, candidate, leave = (x + h).chunk(4, dim=1)
    cell = keep.sigmoid() * state[1] + enter.sigmoid() * candidate.tanh()
    return leave.sigmoid() * cell.tanh(), cell


def _gru(x: Tensor, h: Tensor, state: State) -> State:
    (x_reset, x_keep, x_new), (h_reset, h_keep, h_new) = x.chunk(3, dim=1), h.chunk(3, dim=1)
    keep = (x_keep + h_keep).sigmoid()
    candidate = (x_new + (x_reset + h_reset).sigmoid() * h_new).tanh()
    return ((1 - keep) * candidate + keep * state[0],)


def _tanh(x: Tensor, h: Tensor, state: State) -> State:
    return ((x + h).tanh(),)


def _relu(x: Tensor, h: Tensor, state: State) -> State:
    return ((x + h).relu(),)


def _is_packed(x: object) -> bool:
    return isinstance(x, PackedSequence)  # which is a tuple, too


def _in_steps(module: Module, x: Tensor | PackedSequence) -> _Steps:
    """Inputs or outputs of a module, with or without samples as a dimension."""
    if isinstance(x, PackedSequence):
        return _Steps(x.data, tuple(x.batch_sizes.tolist()), x.sorted_indices)
    if isinstance(module, _CELLS):
        x = x.reshape(1, -1, x.shape[-1])
    elif x.dim() == 2:
        x = x[:, None]
    elif module.batch_first:
        x = x.transpose(0, 1)
    return _Steps(x.flatten(0, 1), (x.shape[1],) * x.shape[0])


def _first_states(call: Call[Module], steps: _Steps) -> list[State]:
    """For each layer and direction, as they were given, or zeros."""
    module, given = call.module, call.option(1, "hx")
    suffixes = [suffix for level in _levels(module) for suffix in level]
    samples = steps.sizes[0]
    if given is None:
        widths = [getattr(module, f"weight_hh{suffixes[0]}").shape[1]]
        widths += [module.hidden_size] if _advance(module) is _lstm else []
        return [tuple(steps.data.new_zeros(samples, width) for width in widths)] * len(suffixes)
    parts = [part.reshape(len(suffixes), samples, -1) for part in (given if isinstance(given, tuple) else (given,))]
    sorted_parts = [part if steps.order is None else part[:, steps.order] for part in parts]
    return [tuple(part[i] for part in sorted_parts) for i in range(len(suffixes))]
