"""Networks whose weights are sharded over ranks by FSDP2 (`torch.distributed.fsdp.fully_shard`).

Such modules cannot be copied. The work is done on a plain copy with whole weights, on every rank, and the result is
sharded as the original was: each rank keeps its rows of every matrix, which metric and projector, acting on the input
side, change independently of all other rows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from unsc import peers

_DISTRIBUTED = "torch.distributed."


class _Gone:
    """In the place of what a copy has no use for."""


def is_sharded(model: nn.Module) -> bool:
    """Whether some of the weights are shards."""
    return any(_is_shard(p) for p in model.parameters())


def whole_copy(model: nn.Module) -> nn.Module:
    """A copy with plain modules and whole weights; all ranks must make it."""
    peers.gathered(None)  # a rank that has failed says so here, and nobody waits for its shards
    memo: dict[int, Any] = {}
    gone = _Gone()
    for module in model.modules():
        if _is_fsdp(module):
            module.reshard()  # type: ignore[operator]
    for p in model.parameters():
        if _is_shard(p):
            memo[id(p)] = nn.Parameter(_whole(p), requires_grad=p.requires_grad)
    for module in model.modules():
        memo.update({id(owner): gone for _, _, owner in _distributed_hooks(module)})
    for module in reversed(list(model.modules())):  # what is inside first, so that it is there already
        if _is_fsdp(module):
            memo[id(module)] = _plain(module, memo)
    made = copy.deepcopy(model, memo)
    for module in made.modules():
        for hooks, key, owner in list(_hooks(module)):
            if owner is gone:
                del hooks[key]
    return made


def resharding(model: nn.Module) -> Callable[[nn.Module], nn.Module]:
    """What shards a plain network of the same kind as `model` is: the same modules, over the same mesh."""
    how = {path: _settings(module) for path, module in model.named_modules() if _is_fsdp(module)}
    return partial(_shard, how)


def _shard(how: dict[str, dict[str, Any]], network: nn.Module) -> nn.Module:
    from torch.distributed.fsdp import fully_shard

    for path in reversed(list(how)):  # what is inside first
        fully_shard(network.get_submodule(path), **how[path])
    return network


def _settings(module: nn.Module) -> dict[str, Any]:
    """How `fully_shard` was called, as far as a module tells."""
    from torch.distributed.fsdp import fully_shard

    state: Any = fully_shard.state(module)  # type: ignore[attr-defined]
    groups = getattr(state, "_fsdp_param_groups", None) or [getattr(state, "_fsdp_param_group", None)]
    mesh = next((p.device_mesh for p in module.parameters() if _is_shard(p)), None)  # type: ignore[attr-defined]
    found = {name: getattr(groups[0], name, None) for name in ("mp_policy", "offload_policy")}
    return {name: value for name, value in {"mesh": mesh, **found}.items() if value is not None}


def _plain(module: nn.Module, memo: dict[int, Any]) -> nn.Module:
    """The copy of a module of FSDP as one of the class that it had before."""
    kind = next(k for k in type(module).__mro__ if issubclass(k, nn.Module) and not _made_by_fsdp(k))
    made = kind.__new__(kind)
    made.__dict__.update({k: copy.deepcopy(v, memo) for k, v in vars(module).items() if not _is_state(k)})
    return made


def _is_fsdp(module: nn.Module) -> bool:
    return any(_made_by_fsdp(kind) for kind in type(module).__mro__)


def _made_by_fsdp(kind: type) -> bool:
    return any(base.__name__ == "FSDPModule" and base.__module__.startswith(_DISTRIBUTED) for base in kind.__mro__)


def _is_state(name: str) -> bool:
    """Whether an attribute holds what `fully_shard` knows of a module."""
    return "composable_api" in name or name.endswith("_state_key")


def _is_shard(p: Tensor) -> bool:
    return hasattr(p, "full_tensor")


def _whole(p: Any) -> Tensor:
    with torch.no_grad():
        return p.full_tensor().detach().clone()


def _hooks(module: nn.Module) -> Iterator[tuple[dict[Any, Any], Any, object]]:
    """Each hook of a module: where it is, under which key, and the object whose method it is."""
    for name, hooks in vars(module).items():
        if name.endswith("_hooks") and isinstance(hooks, dict):
            yield from ((hooks, key, getattr(hook, "__self__", None)) for key, hook in hooks.items())


def _distributed_hooks(module: nn.Module) -> Iterator[tuple[dict[Any, Any], Any, object]]:
    for hooks, key, owner in _hooks(module):
        if type(owner).__module__.startswith(_DISTRIBUTED):
            yield hooks, key, owner
