"""Normalisation folded into the convolution before it: one pass over what comes out in the place of two.

In evaluation mode a batch normalisation scales and shifts each channel by constants, and so does a convolution whose
weights and bias are scaled and shifted. That takes neither memory nor time of its own. It is for layers that stay as
they are and at whose outputs nobody looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

_PAIRS: Mapping[type[Any], type[Any]] = {
    nn.Conv1d: nn.BatchNorm1d,
    nn.Conv2d: nn.BatchNorm2d,
    nn.Conv3d: nn.BatchNorm3d,
}


def folded(traced: fx.GraphModule) -> fx.GraphModule:
    """A traced network in evaluation mode without the normalisations that follow a convolution which nothing else sees.

    Folded convolutions are new modules; `traced` is changed in place, the modules that it was made of are not.
    """
    for number, (before, after) in enumerate([*_pairs(traced)]):
        conv, norm = (traced.get_submodule(str(node.target)) for node in (before, after))
        name = f"folded_{number}"
        traced.add_module(name, fuse_conv_bn_eval(conv, norm))  # pyright: ignore[reportArgumentType]
        before.target = name
        after.replace_all_uses_with(before)
        traced.graph.erase_node(after)
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced


def _pairs(traced: fx.GraphModule) -> Iterator[tuple[fx.Node, fx.Node]]:
    """Calls of a convolution and of the normalisation that takes its output, in the order in which they are made."""
    for after in traced.graph.nodes:
        if after.op != "call_module" or len(after.args) != 1 or not isinstance(before := after.args[0], fx.Node):
            continue
        if before.op != "call_module" or len(before.users) > 1:
            continue
        conv, norm = (traced.get_submodule(str(node.target)) for node in (before, after))
        if type(norm) is _PAIRS.get(type(conv)) and norm.track_running_stats and not (_watched(conv) or _watched(norm)):
            yield before, after


def _watched(module: nn.Module) -> bool:
    """Whether hooks see what it does, or make something else of it."""
    return bool(module._forward_hooks or module._forward_pre_hooks)  # pyright: ignore[reportPrivateUsage]
