"""Multi-head attention: the projections of queries, keys and values, and that of the heads' outputs."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from unsc.layers.call import Call
from unsc.layers.kind import Kind, Place, bias_of, own_parameters
from unsc.layers.layer import Layer
from unsc.layers.registry import register
from unsc.layers.rows import Rows, flat

_ARGUMENTS = {"q": "query", "k": "key", "v": "value"}
"""By role, in their order."""


@register
class Attention(Kind[nn.MultiheadAttention]):
    name = "MultiheadAttention"
    inside = ("out_proj",)

    def modules(self) -> tuple[type[nn.MultiheadAttention], ...]:
        return (nn.MultiheadAttention,)

    def layers(self, place: Place[nn.MultiheadAttention]) -> Iterator[Layer | None]:
        module, e = place.module, place.module.embed_dim
        packed = "in_proj_weight" in own_parameters(module)
        widths = {"q": e, "k": module.kdim or e, "v": module.vdim or e}
        for i, (role, width) in enumerate(widths.items()):
            span = (i * e, (i + 1) * e)
            weight = place.view("in_proj_weight", *span) if packed else place.view(f"{role}_proj_weight")
            bias = place.view("in_proj_bias", *span)
            yield place.layer(weight, bias, outputs=e, inputs=width, role=role, leaf=role)
        weight, bias = place.view("out_proj.weight"), place.view("out_proj.bias")
        yield place.layer(weight, bias, outputs=e, inputs=e, role="out", leaf="out_proj")

    def rows(self, call: Call[nn.MultiheadAttention], role: str) -> Rows:
        if role == "out":
            return flat(_joined_heads(call))
        return flat(call.argument(list(_ARGUMENTS).index(role), _ARGUMENTS[role]))

    def channels(self, module: nn.MultiheadAttention) -> int:
        return -1

    def visible(self, role: str) -> bool:
        return role == "out"

    def returned(self, call: Call[nn.MultiheadAttention], role: str) -> object:
        return call.output[0]

    def bias(self, module: nn.MultiheadAttention, role: str) -> Tensor | None:
        return bias_of(module.out_proj) if role == "out" else None


def _joined_heads(call: Call[nn.MultiheadAttention]) -> Tensor:
    """What the output projection was given. It is visible nowhere: run the attention with an identity in its place."""
    projection = {f"out_proj.{name}": p for name, p in own_parameters(call.module.out_proj).items()}
    identity = {
        name: torch.eye(*p.shape).to(p) if p.dim() == 2 else torch.zeros_like(p) for name, p in projection.items()
    }
    return torch.func.functional_call(call.module, identity, call.args, call.kwargs)[0]
