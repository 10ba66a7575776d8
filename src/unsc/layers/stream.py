"""Stream a model's rows out of its forward passes, and check that they are what `layers.py` says."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.layers.find import CONVOLUTIONS, Layer, Use

Receive = Callable[[Layer, Tensor], None]


@contextmanager
def observe(
    model: nn.Module, layers: Iterable[Layer], receive: Receive, *, chunk_bytes: int = 256 << 20
) -> Iterator[None]:
    """While active, every forward pass of `model` hands `receive` each layer's rows.

    Rows come as (groups, n, columns) in chunks of at most `chunk_bytes` (one sample's patches at least), so
    that all patches never exist at once. Modules called several times hand over rows at each call.
    """
    by_module: dict[str, list[tuple[Layer, Use]]] = {}
    for layer in layers:
        for use in layer.uses:
            by_module.setdefault(use.module, []).append((layer, use))
    inside_attention = False

    def hook(served: list[tuple[Layer, Use]]) -> Callable[..., None]:
        def call(module: nn.Module, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
            nonlocal inside_attention
            if inside_attention:  # our own second call of an attention, below
                return
            for layer, use in served:
                inside_attention = use.role == "out"
                try:
                    x = _input_of(module, use.role, args, kwargs)
                finally:
                    inside_attention = False
                for rows in _row_chunks(layer, use, module, x, chunk_bytes):
                    receive(layer, rows)

        return call

    handles = []
    try:
        for path, served in by_module.items():
            module = model.get_submodule(path)
            handles.append(module.register_forward_hook(hook(served), with_kwargs=True))
        with torch.no_grad(), _no_fast_path():
            yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _no_fast_path() -> Iterator[None]:
    # Transformer layers have a fused path for inference that calls none of their submodules.
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _input_of(module: nn.Module, role: str, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    if role == "input":
        return args[0] if args else next(iter(kwargs.values()))
    if role in ("q", "k", "v"):
        position = "qkv".index(role)
        return args[position] if position < len(args) else kwargs[("query", "key", "value")[position]]
    # The output projection's inputs are visible nowhere: run the attention with an identity in its place.
    projection = module.get_submodule("out_proj")
    weight, bias = projection.weight, projection.bias
    identity: dict[str, Tensor] = {"out_proj.weight": torch.eye(len(weight), dtype=weight.dtype, device=weight.device)}  # type: ignore[arg-type]
    if bias is not None:
        identity["out_proj.bias"] = torch.zeros_like(bias)  # type: ignore[arg-type]
    return torch.func.functional_call(module, identity, args, kwargs)[0]


def _row_chunks(layer: Layer, use: Use, module: nn.Module, x: Tensor, chunk_bytes: int) -> Iterator[Tensor]:
    if isinstance(module, CONVOLUTIONS):
        seen = windows(module, x)
        positions = math.prod(seen.shape[2 : 2 + len(module.kernel_size)])
        sample_bytes = positions * layer.groups * layer.columns * x.element_size()
        for chunk in seen.split(max(1, chunk_bytes // sample_bytes)):
            yield _with_ones(layer, use, _patches(chunk, layer.groups, len(module.kernel_size)))
    else:
        flat = x.reshape(-1, x.shape[-1])
        for chunk in flat.split(max(1, chunk_bytes // (layer.columns * x.element_size()))):
            yield _with_ones(layer, use, chunk.T[None])


def windows(module: nn.Conv1d | nn.Conv2d | nn.Conv3d, x: Tensor) -> Tensor:
    """Every window the kernel visits, (n, channels, *positions, *kernel), as a view of the padded input."""
    dims = len(module.kernel_size)
    x = x if x.dim() == dims + 2 else x[None]  # a single sample may come without a batch dimension
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    x = F.pad(x, _padding(module), mode=mode)
    for i, (size, stride, dilation) in enumerate(zip(module.kernel_size, module.stride, module.dilation, strict=True)):
        x = x.unfold(2 + i, dilation * (size - 1) + 1, stride)[..., ::dilation]
    return x


def _padding(module: nn.Conv1d | nn.Conv2d | nn.Conv3d) -> list[int]:
    """Zeros before and after each dimension, last dimension first, as `F.pad` takes them."""
    pairs = []
    for i, (size, dilation) in enumerate(zip(module.kernel_size, module.dilation, strict=True)):
        if module.padding == "same":
            total = dilation * (size - 1)
            pairs.append((total // 2, total - total // 2))
        elif module.padding == "valid":
            pairs.append((0, 0))
        else:
            pairs.append((int(module.padding[i]), int(module.padding[i])))
    return [side for pair in reversed(pairs) for side in pair]


def _patches(windows: Tensor, groups: int, dims: int) -> Tensor:
    """(n, channels, *positions, *kernel) -> (groups, channels / groups, *kernel, n, *positions), a view"""
    n, channels = windows.shape[:2]
    x = windows.reshape(n, groups, channels // groups, *windows.shape[2:])
    positions, kernel = range(3, 3 + dims), range(3 + dims, 3 + 2 * dims)
    return x.permute(1, 2, *kernel, 0, *positions)


def _with_ones(layer: Layer, use: Use, columns: Tensor) -> Tensor:
    """Rows (groups, n, columns) out of the weight's own columns, which lead the remaining dimensions.

    Stored column by column: patches overlap along positions, so this copies four times faster.
    """
    n = columns[0].numel() // layer.inputs
    stored = columns.new_zeros(layer.groups, layer.columns, n)
    stored[:, : layer.inputs].view(columns.shape).copy_(columns)
    if use.bias is not None:
        stored[:, layer.inputs + layer.biases.index(use.bias)] = 1
    return stored.mT


def check_layers(model: nn.Module, layers: Iterable[Layer], forward: Callable[[], object]) -> dict[str, str]:
    """Compare `rows @ W.T` with what each module returns during `forward`; names of layers that fail, and why.

    A subclass may do something else with its weight (standardise it, add to it), and a layer may not be
    used at all; neither must be edited on the strength of its type.
    """
    layers = tuple(layers)
    parameters = dict(model.named_parameters())
    predicted: dict[str, list[Tensor]] = {}
    broken: dict[str, str] = {}

    def receive(layer: Layer, rows: Tensor) -> None:
        predicted.setdefault(layer.name, []).append(rows @ layer.matrix(parameters).mT)

    def compare(layer: Layer, use: Use) -> Callable[..., None]:
        def call(module: nn.Module, args: tuple, output: Any) -> None:
            ours = predicted.get(layer.name)
            if not ours:
                return  # called from within an attention's second run
            if not _agree(torch.cat(ours, dim=1), output, layer, use, module):
                broken[use.module] = f"{type(module).__name__} does not return rows @ W.T"
            ours.clear()

        return call

    handles = []
    try:
        with observe(model, layers, receive):
            for layer in layers:
                for use in layer.uses:
                    if use.role in ("input", "out"):  # the others are not visible outside an attention
                        module = model.get_submodule(use.module)
                        handles.append(module.register_forward_hook(compare(layer, use)))
            forward()
    finally:
        for handle in handles:
            handle.remove()
    failed = {x.name: "not used by the model's forward pass" for x in layers if x.name not in predicted}
    return failed | {x.name: broken[use.module] for x in layers for use in x.uses if use.module in broken}


def _agree(ours: Tensor, output: Any, layer: Layer, use: Use, module: nn.Module) -> bool:
    """Whether predicted outputs (groups, n, outputs) are those that the module returned, up to rounding."""
    theirs = output[0] if use.role == "out" else output
    if not torch.is_tensor(theirs) or theirs.numel() != ours.numel():
        return False
    owner = module.get_submodule("out_proj") if use.role == "out" else module
    if use.bias is None and torch.is_tensor(owner.bias):  # a bias that is not edited
        ours = ours + owner.bias.reshape(layer.groups, 1, layer.outputs)
    if isinstance(module, CONVOLUTIONS):
        dims = len(module.kernel_size)
        theirs = theirs if theirs.dim() == dims + 2 else theirs[None]
        theirs = theirs.reshape(len(theirs), layer.groups, layer.outputs, -1).permute(1, 0, 3, 2)
    error = (ours.flatten() - theirs.flatten()).abs().max()
    return bool(error <= 1e-3 * theirs.abs().max().clamp(min=1e-6))
