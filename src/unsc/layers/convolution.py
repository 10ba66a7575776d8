"""Convolutions in one, two and three dimensions: unfolded patches, with the groups as they are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

import torch.nn.functional as F
from torch import Tensor, nn

from unsc.layers.call import Call
from unsc.layers.kind import Factored, Factors, Kind, Place, weight_and_bias
from unsc.layers.layer import Layer
from unsc.layers.registry import register
from unsc.layers.rows import Rows, Strided

Conv: TypeAlias = nn.Conv1d | nn.Conv2d | nn.Conv3d


@register
class Convolution(Kind[Conv], Factored[Conv]):
    name = "Conv1d, Conv2d, Conv3d"

    def modules(self) -> tuple[type[Conv], ...]:
        return (nn.Conv1d, nn.Conv2d, nn.Conv3d)

    def layers(self, place: Place[Conv]) -> Iterator[Layer | None]:
        module = place.module
        inputs = module.in_channels // module.groups * math.prod(module.kernel_size)
        yield place.layer(
            place.view("weight"),
            place.view("bias"),
            outputs=module.out_channels,
            inputs=inputs,
            groups=module.groups,
        )

    def rows(self, call: Call[Conv], role: str) -> Rows:
        module, dims = call.module, len(call.module.kernel_size)
        seen = windows(module, call.first).unflatten(1, (module.groups, -1))
        positions, kernel = range(3, 3 + dims), range(3 + dims, 3 + 2 * dims)
        return Strided(seen.permute(1, 2, *kernel, 0, *positions), along=2 + dims)

    def channels(self, module: Conv) -> int:
        return -1 - len(module.kernel_size)

    def features(self, call: Call[Conv]) -> Tensor:
        return call.first

    def factors(self, module: Conv, x: Tensor, gradient: Tensor) -> Factors:
        n, seen, dims = len(x), windows(module, x), len(module.kernel_size)
        positions, kernel = range(2, 2 + dims), range(2 + dims, 2 + 2 * dims)
        left = gradient.reshape(n, module.groups, module.out_channels // module.groups, -1)
        right = seen.permute(0, 1, *kernel, *positions).reshape(n, module.groups, -1, left.shape[-1]).mT
        return weight_and_bias(left, right)

    def overlap(self, module: Conv) -> int:
        return math.prod(module.kernel_size)


def windows(module: Conv, x: Tensor) -> Tensor:
    """Every window the kernel visits, (n, channels, *positions, *kernel), as a view of the padded input."""
    dims = len(module.kernel_size)
    x = x if x.dim() == dims + 2 else x[None]  # a single sample may come without a batch dimension
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    x = F.pad(x, _padding(module), mode=mode)
    for i, (size, stride, dilation) in enumerate(zip(module.kernel_size, module.stride, module.dilation, strict=True)):
        x = x.unfold(2 + i, dilation * (size - 1) + 1, stride)[..., ::dilation]
    return x


def _padding(module: Conv) -> list[int]:
    """Zeros before and after each dimension, last dimension first, as `F.pad` takes them."""
    pairs: list[tuple[int, int]] = []
    for i, (size, dilation) in enumerate(zip(module.kernel_size, module.dilation, strict=True)):
        if module.padding == "same":
            total = dilation * (size - 1)
            pairs.append((total // 2, total - total // 2))
        elif module.padding == "valid":
            pairs.append((0, 0))
        else:
            pairs.append((int(module.padding[i]), int(module.padding[i])))
    return [side for pair in reversed(pairs) for side in pair]
