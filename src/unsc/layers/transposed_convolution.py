"""Transposed convolutions in one, two and three dimensions, with the groups as they are.

An input pixel is spread over the outputs that the kernel reaches from it, and what meets at an output is added up. Seen
from an output, that is a convolution: its row holds, for every channel and kernel entry, the input pixel that reaches
it through this entry, or 0 if there is none. So rows are windows of the input with `stride - 1` zeros between its
pixels, read backwards, and `rows @ W.T` is the output itself. To take single pixels for rows, (channels,), and the
products before they are added up for outputs, would protect retained outputs too, but allow fewer changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

import torch.nn.functional as F
from torch import Tensor, nn

from unsc.layers.call import Call
from unsc.layers.kind import Kind, Place
from unsc.layers.layer import Layer
from unsc.layers.registry import register
from unsc.layers.rows import Rows, Strided

ConvTranspose: TypeAlias = nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d


@register
class TransposedConvolution(Kind[ConvTranspose]):
    name = "ConvTranspose1d, ConvTranspose2d, ConvTranspose3d"

    def modules(self) -> tuple[type[ConvTranspose], ...]:
        return (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)

    def layers(self, place: Place[ConvTranspose]) -> Iterator[Layer | None]:
        module = place.module
        yield place.layer(
            place.view("weight"),
            place.view("bias"),
            outputs=module.out_channels,
            inputs=module.in_channels // module.groups * math.prod(module.kernel_size),
            groups=module.groups,
            transposed=True,
        )

    def rows(self, call: Call[ConvTranspose], role: str) -> Rows:
        module, dims = call.module, len(call.module.kernel_size)
        seen = _windows(module, call.first, call.option(1, "output_size")).unflatten(1, (module.groups, -1))
        positions, kernel = range(3, 3 + dims), range(3 + dims, 3 + 2 * dims)
        return Strided(seen.permute(1, 2, *kernel, 0, *positions), along=2 + dims, flipped=tuple(range(2, 2 + dims)))

    def channels(self, module: ConvTranspose) -> int:
        return -1 - len(module.kernel_size)

    def features(self, call: Call[ConvTranspose]) -> Tensor:
        return call.first


def _windows(module: ConvTranspose, x: Tensor, output_size: list[int] | None) -> Tensor:
    """What reaches each output, (n, channels, *positions, *kernel), last kernel entry first, as a view."""
    dims = len(module.kernel_size)
    x = x if x.dim() == dims + 2 else x[None]  # a single sample may come without a batch dimension
    pairs: list[tuple[int, int]] = []
    for i in range(dims):
        stride, reach = module.stride[i], module.dilation[i] * (module.kernel_size[i] - 1)
        x, size = _spread(x, 2 + i, stride), x.shape[2 + i]
        before = reach - int(module.padding[i])
        full = (size - 1) * stride + 1
        smallest = full + reach - 2 * int(module.padding[i])
        outputs = smallest + module.output_padding[i] if output_size is None else output_size[i - dims]
        pairs.append((before, outputs + reach - before - full))
    x = F.pad(x, [side for pair in reversed(pairs) for side in pair])  # below 0, it cuts off
    for i, (size, dilation) in enumerate(zip(module.kernel_size, module.dilation, strict=True)):
        x = x.unfold(2 + i, dilation * (size - 1) + 1, 1)[..., ::dilation]
    return x


def _spread(x: Tensor, dim: int, stride: int) -> Tensor:
    """With `stride - 1` zeros after each entry but the last."""
    shape = list(x.shape)
    shape[dim] = (shape[dim] - 1) * stride + 1
    wide = x.new_zeros(shape)
    wide.transpose(0, dim)[::stride] = x.transpose(0, dim)
    return wide
