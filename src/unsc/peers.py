"""Peers: the processes that share a run, and all that they say to each other.

Under an initialised process group of `torch.distributed` every process, or rank, makes the same calls with the same
arguments. Work is shared out where it is done, and what comes of it is put together again on every rank. So all ranks
decide from the same values and go the same way, and the code around reads as if there were one process. With one
process, or outside of `joined`, nothing is exchanged.

A rank that fails does not leave the others waiting: before anything is exchanged all ranks say whether they are well,
and if one of them is not, its error ends the work on all.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from hashlib import blake2b
from itertools import islice
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from unsc.errors import InvalidRequest, RankFailed, listing

T = TypeVar("T")
R = TypeVar("R")
K = TypeVar("K", bound=Hashable)

_JOINED: ContextVar[bool] = ContextVar("joined", default=False)
_ALONE: ContextVar[bool] = ContextVar("alone", default=False)
_OUT_OF_STEP: ContextVar[bool] = ContextVar("out of step", default=False)


@contextmanager
def joined() -> Generator[None, None, None]:
    """Share the work inside with the other ranks, all of which must enter it; also a decorator.

    What fails on one rank ends the work on all of them: with its own error there, with `RankFailed` on the others.
    """
    if _ALONE.get() or _JOINED.get() or not _there_are_others():
        yield
        return
    before = _JOINED.set(True), _OUT_OF_STEP.set(False)
    try:
        yield
        meet()
    except RankFailed:
        raise
    except Exception as e:
        with suppress(RankFailed):  # what went wrong here matters more than that others are gone by now
            if not _OUT_OF_STEP.get():
                meet(e)
        raise
    finally:
        _JOINED.reset(before[0])
        _OUT_OF_STEP.reset(before[1])


@contextmanager
def alone() -> Generator[None, None, None]:
    """What is called inside is the work of this rank alone, whatever process group there is."""
    before = _ALONE.set(True), _JOINED.set(False)
    try:
        yield
    finally:
        _ALONE.reset(before[0])
        _JOINED.reset(before[1])


def count() -> int:
    """How many ranks share the work."""
    return dist.get_world_size() if _JOINED.get() else 1


def rank() -> int:
    """Which of them this is, from 0."""
    return dist.get_rank() if _JOINED.get() else 0


def meet(error: Exception | None = None) -> None:
    """Hear whether all ranks are well, and end the work if one of them is not; `error` is what this one fails with."""
    if count() == 1:
        return
    well = torch.tensor([int(error is not None)], device=_wire())
    _reach(dist.all_reduce, well)
    if not well.item():
        return
    said: list[Any] = [None] * dist.get_world_size()
    _reach(dist.all_gather_object, said, None if error is None else f"{type(error).__name__}: {error}")
    if error is None:
        first = next(r for r, message in enumerate(said) if message is not None)
        raise RankFailed(f"rank {first} failed, and the others stop with it. It said: {said[first]}")


@contextmanager
def together() -> Generator[None, None, None]:
    """What all ranks do at once, exchanging things that are none of ours.

    All are well when it begins. A rank that fails in it cannot tell the others, which wait for something else: they
    learn of it when its process ends.
    """
    meet()
    try:
        yield
    except Exception as e:
        _OUT_OF_STEP.set(True)
        if (isinstance(e, RuntimeError) and "gloo" in str(e)) or isinstance(e, dist.DistError):
            raise _lost(e) from e
        raise


def mine(things: Iterable[T]) -> Iterable[T]:
    """Every n-th of some things, n being the number of ranks: each has one rank that it belongs to."""
    return things if count() == 1 else islice(things, rank(), None, count())


def in_turns(things: Iterable[T]) -> Iterator[T | None]:
    """As `mine`, but equally many on every rank: None where others have one more."""
    things = list(things)
    for first in range(0, len(things), count()):
        yield things[first + rank()] if first + rank() < len(things) else None


def own_part(size: int) -> slice:
    """Which of so many samples in a row are this rank's: parts are equal, but for the last ones, which may be empty."""
    each = -(-size // count())
    return slice(min(rank() * each, size), min((rank() + 1) * each, size))


def total(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The sums over ranks of tensors that have the same shapes and types on all of them."""
    if count() == 1:
        return list(tensors)
    meet()
    found = list(tensors)
    for dtype in dict.fromkeys(t.dtype for t in tensors):  # one exchange for all of a type
        places = [i for i, t in enumerate(tensors) if t.dtype == dtype]
        flat = _summed(torch.cat([tensors[i].detach().flatten() for i in places]), dist.all_reduce)
        for i, part in zip(places, flat.split([tensors[i].numel() for i in places]), strict=True):
            found[i] = part.view(tensors[i].shape)
    return found


def total_at(owner: int, tensor: Tensor) -> Tensor | None:
    """The sum over ranks of a tensor, on the rank `owner`; None on the others."""
    if count() == 1:
        return tensor
    meet()
    summed = _summed(tensor.clone(), dist.reduce, dst=owner)
    return summed if rank() == owner else None


def total_of(*numbers: float) -> list[float]:
    """The sums over ranks of numbers."""
    return list(numbers) if count() == 1 else total([torch.tensor(numbers, dtype=torch.float64)])[0].tolist()


def everyones(size: int, work: Callable[[Tensor], Tensor]) -> Tensor:
    """A tensor (size, ...), of which each rank works out its part: `work` gives that of positions (k,).

    All ranks work on equally many positions, so that none is without: a last one may be worked out several times.
    """
    if count() == 1:
        return work(torch.arange(size))
    each = -(-size // count())
    own = work((rank() * each + torch.arange(each)).clamp(max=size - 1)).contiguous()
    meet()
    parts = [torch.empty_like(own, device=_wire()) for _ in range(count())]
    _reach(dist.all_gather, parts, own.to(_wire()))
    return torch.cat(parts)[:size].to(own.device)


def gathered(value: T) -> list[T]:
    """What each rank has, in the order of ranks; it must be picklable."""
    if count() == 1:
        return [value]
    meet()
    found: list[Any] = [None] * count()
    _reach(dist.all_gather_object, found, value)
    return found


def gathered_at(owner: int, value: T) -> list[T] | None:
    """What each rank has, in the order of ranks, on the rank `owner`; None on the others. It must be picklable."""
    if count() == 1:
        return [value]
    meet()
    found: list[Any] | None = [None] * count() if rank() == owner else None
    _reach(dist.gather_object, value, found, dst=owner)
    return found


def owners(costs: Mapping[K, float]) -> dict[K, int]:
    """Which rank does what, so that all have about as much to do: the most expensive first, each to the least busy."""
    load = [0.0] * count()
    found: dict[K, int] = {}
    for key in sorted(costs, key=lambda k: -costs[k]):
        found[key] = load.index(min(load))
        load[found[key]] += costs[key]
    return {key: found[key] for key in costs}


def worked_out(owned: Mapping[K, int], work: Callable[[K], R]) -> dict[K, R]:
    """What `work` gives for each key, worked out by the rank that owns it and known to all; it must be picklable."""
    if count() == 1:
        return {key: work(key) for key in owned}
    own = {key: work(key) for key, owner in owned.items() if owner == rank()}
    meet()
    return {key: _from(owner, own.get(key)) for key, owner in owned.items()}


def agree(values: Mapping[str, object]) -> None:
    """Refuse to go on unless all ranks have the same `values`, whose names are for the message."""
    everyone = gathered({name: str(value) for name, value in values.items()})
    for name in values:
        said = [one[name] for one in everyone]
        if len(set(said)) > 1:
            differing = listing(f"rank {r}: {value:.80}" for r, value in enumerate(said))
            raise InvalidRequest(f"the ranks disagree on {name} ({differing}); start all of them with the same")


def digest(*parts: bytes | str) -> str:
    """A short hash, for what is too long to be compared in full."""
    found = blake2b(digest_size=8)
    for part in parts:
        found.update(part.encode() if isinstance(part, str) else part)
    return found.hexdigest()


def seed_from(*numbers: int) -> int:
    """A seed for each tuple of numbers. What is drawn for a batch must not depend on which rank has which batches."""
    return int(digest(repr(numbers)), 16) >> 1


def _there_are_others() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def _from(owner: int, value: T | None) -> T:
    """What the rank `owner` has."""
    box: list[Any] = [value]
    _reach(dist.broadcast_object_list, box, src=owner)
    return box[0]


def _summed(tensor: Tensor, exchange: Callable[..., object], **how: int) -> Tensor:
    """What a sum over ranks makes of a tensor, which it overwrites."""
    moved = tensor.to(_wire()).contiguous()
    _reach(exchange, moved, **how)
    return moved.to(tensor.device)


def _reach(exchange: Callable[..., object], *what: object, **how: int) -> None:
    """Exchange something; a rank that is gone, or does not answer in time, is said to be so."""
    try:
        exchange(*what, **how)
    except RuntimeError as e:
        raise _lost(e) from e


def _lost(error: Exception) -> RankFailed:
    said = str(error).partition("\n")[0]
    return RankFailed(
        f"rank {dist.get_rank()} lost the others ({said:.300}). One of them failed or was killed, or all ranks did not "
        "make the same calls; see what they said. What is the work of one rank goes into `with unsc.alone():`"
    )


def _wire() -> torch.device:
    """Where tensors must be to be exchanged."""
    return torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else torch.device("cpu")
