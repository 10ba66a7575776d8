"""Convolutions in one, two and three dimensions: unfolded patches, with the groups as they are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

import torch.nn.functional as F
from torch import Tensor, nn

from unsc.layers.call import Call
from unsc.layers.kind import Factored, Factors, Kind, Place, weight_and_bias
from unsc.layers.lags import Geometry, Patches
from unsc.layers.layer import Layer
from unsc.layers.registry import register
from unsc.layers.rows import Rows

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
        x, geometry = _input(module, call.first)
        view = seen.permute(1, 2, *kernel, 0, *positions)
        return Patches(view, 2 + dims, input=x.unflatten(1, (module.groups, -1)), geometry=geometry)

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
    x = _padded(module, _batched(module, x))
    for i, (size, stride, dilation) in enumerate(zip(module.kernel_size, module.stride, module.dilation, strict=True)):
        x = x.unfold(2 + i, dilation * (size - 1) + 1, stride)[..., ::dilation]
    return x


def _input(module: Conv, x: Tensor) -> tuple[Tensor, Geometry]:
    """The input (n, channels, *sizes), and how the kernel goes over it; zeros around it are left to the latter."""
    x, padding = _batched(module, x), _padding(module)
    if module.padding_mode != "zeros":
        x, padding = _padded(module, x), [(0, 0)] * len(padding)
    ways = tuple(module.kernel_size), tuple(module.stride), tuple(module.dilation)
    return x, Geometry(tuple(x.shape[2:]), *ways, tuple(padding))


def _batched(module: Conv, x: Tensor) -> Tensor:
    """A single sample may come without a batch dimension."""
    return x if x.dim() == len(module.kernel_size) + 2 else x[None]


def _padded(module: Conv, x: Tensor) -> Tensor:
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    return F.pad(x, [side for pair in reversed(_padding(module)) for side in pair], mode=mode)


def _padding(module: Conv) -> list[tuple[int, int]]:
    """How much is put before and after each dimension."""
    pairs: list[tuple[int, int]] = []
    for i, (size, dilation) in enumerate(zip(module.kernel_size, module.dilation, strict=True)):
        if module.padding == "same":
            total = dilation * (size - 1)
            pairs.append((total // 2, total - total // 2))
        elif module.padding == "valid":
            pairs.append((0, 0))
        else:
            pairs.append((int(module.padding[i]), int(module.padding[i])))
    return pairs
