"""Pieces of work done on a cluster by Ray, in the place of processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from unsc.errors import InvalidRequest
from unsc.extras import need

P = TypeVar("P")
R = TypeVar("R")
LOCAL = "local"
"""The address of a cluster that is started on this machine, and ends with the work."""
_HANDED_ON = ("UNSC_DATA", "PYTHONPATH")
"""Variables that the processes of a cluster need as this one has them."""


class ClusterWorkers(Generic[P, R]):
    """Calls `do` with one piece of work after another, at most `count` at once; used as a context, as `Workers` is.

    Each piece takes one core of the cluster. `do` and the pieces must be picklable, and files that pieces read and
    write must be in a folder that all machines share.
    """

    def __init__(self, do: Callable[[P], R], count: int | None, *, address: str) -> None:
        """`address` is that of a Ray cluster, `auto` for the one that this machine belongs to, or `local`."""
        self._do, self._count, self._address = do, count, address
        self._ray: Any = need("ray", extra="cluster")

    def __enter__(self) -> ClusterWorkers[P, R]:
        variables = {name: os.environ[name] for name in _HANDED_ON if name in os.environ}
        local = {"num_cpus": self._count, "include_dashboard": False} if self._address == LOCAL else {}
        try:
            self._ray.init(self._address, runtime_env={"env_vars": variables}, log_to_driver=False, **local)
        except (ConnectionError, ValueError, RuntimeError) as e:
            raise InvalidRequest(
                f"there is no Ray cluster at {self._address!r} ({e}); start one with ray start --head, give its "
                f"address, or use this machine alone with --cluster {LOCAL}"
            ) from e
        return self

    def __exit__(self, *_: object) -> None:
        self._ray.shutdown()

    def results(self, pieces: Sequence[P]) -> Iterator[tuple[P, R]]:
        """Each piece with what `do` made of it, in the order in which they are done."""
        remote = self._ray.remote(num_cpus=1)(_call)
        do = self._ray.put(self._do)
        waiting, busy = list(reversed(pieces)), dict[Any, P]()
        most = self._count or int(self._ray.cluster_resources().get("CPU", 1))
        while waiting or busy:
            while waiting and len(busy) < most:
                piece = waiting.pop()
                busy[remote.remote(do, piece)] = piece
            (done, *_), _ = self._ray.wait(list(busy), num_returns=1)
            try:
                result = self._ray.get(done)
            except self._ray.exceptions.RayError as e:
                raise InvalidRequest(
                    f"the cluster lost a piece of work ({type(e).__name__}: {e!s:.300}); what was written is kept: "
                    "run the same again"
                ) from e
            yield busy.pop(done), result


def _call(do: Callable[[P], R], piece: P) -> R:
    return do(piece)
