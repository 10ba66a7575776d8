"""Single tensors that are spread over ranks (`DTensor`): which part this rank has, and how it is read and written."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from unsc import peers


class Cut(NamedTuple):
    """Along which dimension of the mesh, and of the tensor, its parts lie."""

    mesh_dim: int
    dim: int


def is_shard(p: Tensor) -> bool:
    return hasattr(p, "full_tensor")


def cut_of(p: Any) -> Cut | None:
    """How a tensor is cut; None unless it is along one dimension, and otherwise copied."""
    cut = [Cut(i, placement.dim) for i, placement in enumerate(p.placements) if placement.is_shard()]
    others = [placement for placement in p.placements if not placement.is_shard()]
    return cut[0] if len(cut) == 1 and all(placement.is_replicate() for placement in others) else None


def spans(p: Any, cut: Cut) -> list[tuple[int, int]]:
    """What each part of a tensor is, from start to stop along the dimension that it is cut along."""
    size, parts = p.shape[cut.dim], p.device_mesh.size(cut.mesh_dim)
    each = -(-size // parts)
    return [(min(i * each, size), min((i + 1) * each, size)) for i in range(parts)]


def own_part(p: Any, cut: Cut) -> int:
    """Which of the parts this rank has."""
    return p.device_mesh.get_local_rank(cut.mesh_dim)


def is_first_copy(p: Any, cut: Cut) -> bool:
    """Whether this rank is the first of those that have the same part."""
    return all(p.device_mesh.get_local_rank(i) == 0 for i in range(p.device_mesh.ndim) if i != cut.mesh_dim)


def local(p: Any) -> Tensor:
    """What this rank has of a tensor, in the same memory, without gradients."""
    return p.detach().to_local() if is_shard(p) else p.detach()


def whole(p: Any) -> Tensor:
    """All of a tensor; of a shard, all ranks that have one must ask for it."""
    if not is_shard(p):
        return p.detach()
    with torch.no_grad(), peers.together():
        return p.full_tensor().detach().clone()


@torch.no_grad()
def put(values: Tensor, p: Any) -> None:
    """Write the values of a whole tensor to `p`, as far as this rank has it."""
    cut = cut_of(p) if is_shard(p) else None
    if cut is not None:
        start, stop = spans(p, cut)[own_part(p, cut)]
        values = values.narrow(cut.dim, start, stop - start)
    local(p).copy_(values)
