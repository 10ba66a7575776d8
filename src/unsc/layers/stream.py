"""Stream a model's rows out of its forward passes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from unsc.layers.call import Call, hooked
from unsc.layers.kind import Kind
from unsc.layers.layer import Layer, Use
from unsc.layers.registry import needed_kind
from unsc.layers.rows import Chunks, Correlations, Draw
from unsc.memory import in_pieces

Receive: TypeAlias = Callable[[Layer, Tensor], None]
"""Takes a layer and some of its rows, (groups, n, columns)."""
Correlate: TypeAlias = Callable[[Layer, Use, Correlations], None]
"""Takes what the moment of a use's rows follows from."""
DrawRows: TypeAlias = Callable[[Layer, int], Draw | None]
"""Says which rows of a layer to take, of so many that a call has; None for all of them."""
ReceiveUse: TypeAlias = Callable[[Call[Any], Kind[Any], Layer, Use], None]
"""Takes a call of a module, the module's kind, and what the call used: a layer and in which role."""

CHUNK_BYTES = 256 << 20


@contextmanager
def observe(
    model: nn.Module,
    layers: Iterable[Layer],
    receive: Receive,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    draw: DrawRows = lambda layer, rows: None,
    correlate: Correlate | None = None,
) -> Generator[None]:
    """While active, every forward pass of `model` hands `receive` each layer's rows, or those that `draw` chooses.

    Rows come as (groups, n, columns) in chunks of at most `chunk_bytes` (one sample's patches at least), so
    that all patches never exist at once, and in smaller ones where memory runs out: `receive` must leave no trace when
    it fails. Modules called several times hand over rows at each call. Where all rows are wanted for their moment, and
    that is found sooner without them, `correlate` gets what it follows from instead, if it is given.
    """

    def of_use(call: Call[Any], kind: Kind[Any], layer: Layer, use: Use) -> None:
        rows = kind.rows(call, use.role)
        drawn = draw(layer, rows.samples * rows.positions)
        if correlate is not None and drawn is None and (found := rows.correlations(chunk_bytes)) is not None:
            return correlate(layer, use, found)
        made = Chunks(layer, use, rows, drawn)

        def hand_over(start: int, stop: int) -> None:
            receive(layer, made.make(start, stop))

        for _ in in_pieces(made.count, made.size(chunk_bytes), hand_over):
            pass

    with observe_uses(model, layers, of_use):
        yield


@contextmanager
def observe_uses(model: nn.Module, layers: Iterable[Layer], receive: ReceiveUse) -> Generator[None]:
    """While active, every forward pass of `model` hands `receive` each use of each layer, without gradients."""
    uses: dict[str, list[tuple[Layer, Use]]] = {}
    for layer in layers:
        for use in layer.uses:
            uses.setdefault(use.module, []).append((layer, use))
    modules = {path: model.get_submodule(path) for path in uses}
    kinds = {path: needed_kind(module) for path, module in modules.items()}

    def of_call(call: Call[Any]) -> None:
        for layer, use in uses[call.path]:
            receive(call, kinds[call.path], layer, use)

    with hooked(modules, of_call), torch.no_grad(), _no_fast_path():
        yield


@contextmanager
def _no_fast_path() -> Generator[None]:
    # Transformer layers have a fused path for inference that calls none of their submodules.
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
