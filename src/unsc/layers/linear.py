"""Linear layers: inputs with their leading dimensions flattened."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from unsc.layers.call import Call
from unsc.layers.kind import Factored, Factors, Kind, Place, weight_and_bias
from unsc.layers.layer import Layer
from unsc.layers.registry import register
from unsc.layers.rows import Rows, flat


@register
class Linear(Kind[nn.Linear], Factored[nn.Linear]):
    name = "Linear"

    def modules(self) -> tuple[type[nn.Linear], ...]:
        return (nn.Linear,)

    def layers(self, place: Place[nn.Linear]) -> Iterator[Layer | None]:
        module = place.module
        yield place.layer(
            place.view("weight"), place.view("bias"), outputs=module.out_features, inputs=module.in_features
        )

    def rows(self, call: Call[nn.Linear], role: str) -> Rows:
        return flat(call.first)

    def channels(self, module: nn.Linear) -> int:
        return -1

    def features(self, call: Call[nn.Linear]) -> Tensor:
        return call.first

    def factors(self, module: nn.Linear, x: Tensor, gradient: Tensor) -> Factors:
        left = gradient.reshape(len(x), 1, -1, gradient.shape[-1]).mT
        return weight_and_bias(left, x.reshape(len(x), 1, -1, x.shape[-1]))
