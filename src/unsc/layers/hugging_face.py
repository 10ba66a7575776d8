"""Hugging Face's Conv1D: a linear map whose weight is stored as (inputs, outputs)."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from torch import Tensor, nn

from unsc.layers.call import Call
from unsc.layers.kind import Kind, Place
from unsc.layers.layer import Layer
from unsc.layers.registry import register
from unsc.layers.rows import Rows, flat


@register
class HuggingFaceConv1D(Kind[nn.Module]):
    name = "Hugging Face's Conv1D"

    def modules(self) -> tuple[type[nn.Module], ...]:
        # A model can only hold one if its owner imported transformers, which we then need not import.
        library = sys.modules.get("transformers.pytorch_utils")
        return () if library is None else (library.Conv1D,)

    def layers(self, place: Place[nn.Module]) -> Iterator[Layer | None]:
        weight = place.view("weight")
        if weight is not None:
            inputs, outputs = place.module.get_parameter("weight").shape
            yield place.layer(weight, place.view("bias"), outputs=outputs, inputs=inputs, transposed=True)

    def rows(self, call: Call[nn.Module], role: str) -> Rows:
        return flat(call.first)

    def channels(self, module: nn.Module) -> int:
        return -1

    def features(self, call: Call[nn.Module]) -> Tensor:
        return call.first
