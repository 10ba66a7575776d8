"""Networks whose weights are sharded over ranks by FSDP2 (`torch.distributed.fsdp.fully_shard`).

Such modules cannot be copied by `copy.deepcopy`. A copy is made of plain modules without memory for their weights,
sharded as the original is, and each rank fills in its own shards: nothing is exchanged, and no rank ever has the whole.
Where that cannot be worked with (`is_workable`), all ranks make a copy with whole weights instead.

Every forward or backward pass of a sharded network is one of all ranks, which gather its weights module by module.
`one_pass` keeps them in step.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from unsc import peers
from unsc.batches import Batch
from unsc.errors import OutOfMemory
from unsc.memory import ran_out
from unsc.shards import cut_of, is_shard, local, whole

_DISTRIBUTED = "torch.distributed."
_UNSEEN: ContextVar[bool] = ContextVar("unseen", default=False)
_OURS: WeakKeyDictionary[nn.Module, Batch | None] = WeakKeyDictionary()
"""The sharded copies that were made here, each with a sample that it once was given."""


class _Gone:
    """In the place of what a copy has no use for."""


def is_sharded(model: nn.Module) -> bool:
    """Whether some of the weights are shards, or are between passes."""
    return any(_is_fsdp(module) for module in model.modules()) or any(is_shard(p) for p in model.parameters())


def is_workable(model: nn.Module) -> bool:
    """Whether each of the ranks that share the work has a shard, so that none needs the whole network."""
    _reshard(model)
    shards: list[Any] = [p for p in model.parameters() if is_shard(p)]
    return peers.count() > 1 and all(p.device_mesh.size() == peers.count() and cut_of(p) for p in shards)


def copied(model: nn.Module) -> nn.Module:
    """A copy, sharded if the model is."""
    return sharded_copy(model) if is_sharded(model) else copy.deepcopy(model)


def sharded_copy(model: nn.Module, prepared: Callable[[nn.Module], nn.Module] | None = None) -> nn.Module:
    """A copy that is sharded in the same way; each rank copies its own shards.

    `prepared` makes the plain modules ready for work, before they are sharded: weights may get another precision, which
    is then also that of passes, and all are gathered for one module at a time.
    """
    _reshard(model)
    source: dict[str, Any] = dict(model.named_parameters())
    how = {path: _settings(module) for path, module in model.named_modules() if _is_fsdp(module)}
    if prepared is not None:
        how = {path: {k: v for k, v in found.items() if k != "mp_policy"} for path, found in how.items()}
        how = {path: found | {"reshard_after_forward": True} for path, found in how.items()}
    made = _plain_copy(model, lambda p: torch.empty(p.shape, dtype=p.dtype, device="meta"))
    made = made if prepared is None else prepared(made)
    empty = dict(made.named_parameters())
    cuts = {id(empty[name]): cut_of(p) for name, p in source.items() if is_shard(p)}
    unlike = {key: cut.dim for key, cut in cuts.items() if cut is not None and cut.dim != 0}
    _shard(how, made, unlike, {empty[name] for name, p in source.items() if not is_shard(p)})
    _fill(made, source)
    _OURS[made] = _OURS.get(model)
    return made


def whole_copy(model: nn.Module) -> nn.Module:
    """A copy with plain modules and whole weights; all ranks must make it."""
    _reshard(model)
    return _plain_copy(model, whole)


def resharding(model: nn.Module) -> Callable[[nn.Module], nn.Module]:
    """What shards a plain network of the same kind as `model` is: the same modules, over the same mesh."""
    how = {path: _settings(module) for path, module in model.named_modules() if _is_fsdp(module)}
    return partial(_shard, how)


@contextmanager
def one_pass(model: nn.Module, batch: Batch | None = None) -> Generator[None, None, None]:
    """A forward pass over a batch, or a backward pass: of all ranks, if the network is sharded. All must make it."""
    if model not in _OURS:
        yield
        return
    if _OURS[model] is None and batch is not None and len(batch):
        _OURS[model] = batch[torch.arange(1)]
    with peers.together():
        try:
            yield
        except (RuntimeError, MemoryError) as e:
            if not ran_out(e):
                raise
            raise OutOfMemory(
                f"memory ran out on rank {peers.rank()} in a pass that all ranks make together, so that it cannot be "
                f"repeated with less ({e!s:.200}); take a smaller batch_size, or more ranks"
            ) from e


@contextmanager
def unseen() -> Generator[None, None, None]:
    """What passes inside show is not looked at: they are made for the sake of other ranks."""
    before = _UNSEEN.set(True)
    try:
        yield
    finally:
        _UNSEEN.reset(before)


def nobody_looks() -> bool:
    """Whether a pass is made for the sake of other ranks."""
    return _UNSEEN.get()


def stand_in(model: nn.Module) -> Batch | None:
    """A sample for a pass that is made for the sake of others; None if every rank makes passes of its own."""
    return _OURS.get(model)


def hooks_of_sharding_last(module: nn.Module) -> None:
    """Let all other forward hooks of a module run while its weights are there."""
    for hooks, key, _ in list(_distributed_hooks(module)):
        if hooks is module._forward_hooks:  # pyright: ignore[reportPrivateUsage]
            hooks[key] = hooks.pop(key)


def _shard(
    how: dict[str, dict[str, Any]],
    network: nn.Module,
    unlike: dict[int, int] | None = None,
    ignored: set[nn.Parameter] | None = None,
) -> nn.Module:
    """`unlike` are parameters, by `id`, that are not cut along their first dimension; `ignored` ones stay whole."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard

    def placement(p: nn.Parameter) -> Shard | None:
        return Shard(unlike[id(p)]) if unlike and id(p) in unlike else None

    more: dict[str, Any] = {"shard_placement_fn": placement} if unlike else {}
    more |= {"ignored_params": ignored} if ignored else {}
    for path in reversed(list(how)):  # what is inside first
        fully_shard(network.get_submodule(path), **how[path], **more)
    return network


def _settings(module: nn.Module) -> dict[str, Any]:
    """How `fully_shard` was called, as far as a module tells."""
    from torch.distributed.fsdp import fully_shard

    state: Any = fully_shard.state(module)  # type: ignore[attr-defined]
    groups = getattr(state, "_fsdp_param_groups", None) or [getattr(state, "_fsdp_param_group", None)]
    mesh = next((p.device_mesh for p in module.parameters() if is_shard(p)), None)  # type: ignore[attr-defined]
    found = {name: getattr(groups[0], name, None) for name in ("mp_policy", "offload_policy")}
    if groups[0] is not None and not getattr(state, "_auto_reshard_after_forward", True):
        found["reshard_after_forward"] = getattr(groups[0], "post_forward_mesh_info", None) is not None
    return {name: value for name, value in {"mesh": mesh, **found}.items() if value is not None}


@torch.no_grad()
def _fill(made: nn.Module, source: dict[str, Any]) -> None:
    """Give a network whose shards have no memory yet what this rank has of `source`, in its own precision."""
    from torch.distributed.tensor import DTensor

    filled: dict[int, nn.Parameter] = {}
    for name, p in made.named_parameters():
        own: Any = p
        values = local(source[name]).to(p.dtype, copy=True)
        if is_shard(p):
            values = DTensor.from_local(
                values, own.device_mesh, own.placements, run_check=False, shape=p.shape, stride=own.stride()
            )
        filled[id(p)] = nn.Parameter(values, requires_grad=p.requires_grad)
    for module in made.modules():
        for name, p in module._parameters.items():  # pyright: ignore[reportPrivateUsage]
            if p is not None:
                module._parameters[name] = filled[id(p)]  # pyright: ignore[reportPrivateUsage]


def _plain_copy(model: nn.Module, weight: Callable[[Any], Tensor]) -> nn.Module:
    """A copy of plain modules, with `weight` of each shard in its place."""
    memo: dict[int, Any] = {}
    gone = _Gone()
    for p in model.parameters():
        if is_shard(p):
            memo[id(p)] = nn.Parameter(weight(p), requires_grad=p.requires_grad)
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


def _plain(module: nn.Module, memo: dict[int, Any]) -> nn.Module:
    """The copy of a module of FSDP as one of the class that it had before."""
    kind = next(k for k in type(module).__mro__ if issubclass(k, nn.Module) and not _made_by_fsdp(k))
    made = kind.__new__(kind)
    made.__dict__.update({k: copy.deepcopy(v, memo) for k, v in vars(module).items() if not _is_state(k)})
    return made


def _reshard(model: nn.Module) -> None:
    """After a pass the outermost weights may still be whole."""
    for module in model.modules():
        if _is_fsdp(module):
            module.reshard()  # type: ignore[operator]


def _is_fsdp(module: nn.Module) -> bool:
    return any(_made_by_fsdp(kind) for kind in type(module).__mro__)


def _made_by_fsdp(kind: type) -> bool:
    return any(base.__name__ == "FSDPModule" and base.__module__.startswith(_DISTRIBUTED) for base in kind.__mro__)


def _is_state(name: str) -> bool:
    """Whether an attribute holds what `fully_shard` knows of a module."""
    return "composable_api" in name or name.endswith("_state_key")


def _hooks(module: nn.Module) -> Iterator[tuple[dict[Any, Any], Any, object]]:
    """Each hook of a module: where it is, under which key, and the object whose method it is."""
    for name, hooks in vars(module).items():
        if name.endswith("_hooks") and isinstance(hooks, dict):
            yield from ((hooks, key, getattr(hook, "__self__", None)) for key, hook in hooks.items())


def _distributed_hooks(module: nn.Module) -> Iterator[tuple[dict[Any, Any], Any, object]]:
    for hooks, key, owner in _hooks(module):
        if type(owner).__module__.startswith(_DISTRIBUTED):
            yield hooks, key, owner
