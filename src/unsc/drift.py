"""How far the outputs of each layer moved on retained samples: Theorem 1, measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from unsc import peers
from unsc.batches import Batch
from unsc.collect import draw_evenly
from unsc.layers import Call, Draw, Layer, Weights, hooked, observe
from unsc.logits import logits_of
from unsc.memory import in_pieces
from unsc.steps.slopes import is_plain, returned

_SAMPLES, _ROWS = 256, 4096
"""Samples that it is measured on, and how many rows are drawn from a batch of them where a layer gives rows alone."""


def drift(
    original: nn.Module, model: nn.Module, layers: Iterable[Layer], retained: Iterable[Batch]
) -> dict[str, float]:
    """How far each layer's outputs moved on retained rows, relative to their size.

    `||R (W - W0).T|| / ||R W0.T||` in Frobenius norm, with R the rows that `retained` has in the original network: its
    first batches, 256 samples at least. A plain layer returns these products itself if it is given other weights; of
    others some rows are drawn evenly, since a ratio of sums is steady early.
    """
    layers = tuple(layers)
    before = Weights(original, layers)
    way = before.way_to(Weights(model, layers))
    with torch.no_grad():
        weights = {name: (way[name], matrix) for name, matrix in before.matrices().items()}
    plain = [x for x in layers if not before.sharded and is_plain(original, x)]
    places = {x.uses[0].module: x for x in plain}
    own: dict[str, list[float]] = {}
    sums = {x.name: [0.0, 0.0] for x in layers}

    def count(layer: Layer, i: int, products: Tensor) -> None:
        own[layer.name][i] += products.square().sum().item()

    def receive(layer: Layer, rows: Tensor) -> None:
        for i, matrix in enumerate(weights[layer.name]):
            count(layer, i, rows[before.groups(layer)] @ matrix.mT)

    def receive_call(call: Call[Any]) -> None:
        layer, (change, now) = places[call.path], weights[places[call.path].name]
        count(layer, 0, returned(layer, call.module, call.first, change))
        all_of_it = call.module.bias is None or bool(layer.biases)
        count(layer, 1, call.output if all_of_it else returned(layer, call.module, call.first, now))

    def forward(batch: Batch, start: int, stop: int) -> None:
        own.update({name: [0.0, 0.0] for name in sums})  # what a pass that ran out of memory has left
        logits_of(original, batch[torch.arange(start, stop)].for_model(original))
        for name, pair in own.items():
            sums[name] = [a + b for a, b in zip(sums[name], pair, strict=True)]

    generator = torch.Generator()

    def draw(layer: Layer, rows: int) -> Draw | None:
        return draw_evenly(rows, _ROWS, generator)

    modules = {path: original.get_submodule(path) for path in places}
    others = [x for x in layers if x not in plain]
    with hooked(modules, receive_call), observe(original, others, receive, draw=draw):
        # Ranks share the samples, or, in a sharded network, the rows of weights.
        some = enumerate(_first(retained, _SAMPLES))
        for number, batch in some if before.sharded else peers.mine(some):
            generator.manual_seed(number)
            for _ in in_pieces(len(batch), len(batch), partial(forward, batch)):
                pass
    moved, sizes = (before.counted({name: pair[i] for name, pair in sums.items()}) for i in (0, 1))
    found = {name: peers.total_of(moved[name], sizes[name]) for name in sums}
    return {name: (change / size) ** 0.5 if size > 0 else 0.0 for name, (change, size) in found.items()}


def _first(batches: Iterable[Batch], samples: int) -> Iterator[Batch]:
    """As many batches as have so many samples."""
    seen = 0
    for batch in batches:
        if seen >= samples:
            return
        yield batch
        seen += len(batch)
