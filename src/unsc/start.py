"""Where a request starts: from a network, or from the result of a former request, which knows what is gone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from torch import nn

from unsc.history import Past
from unsc.names import numbered
from unsc.result import Forgotten


class Start(NamedTuple):
    """A network, and what it has forgotten."""

    model: nn.Module
    gone: tuple[int, ...]
    """Classes that it was made to forget before, ascending."""
    history: tuple[Past, ...]
    """The requests that are known, oldest first."""


def starting_from(
    former: nn.Module | Forgotten,
    gone: Iterable[int | str] | int | str | None,
    *,
    data: Iterable[object] = (),
    label_key: str | None = None,
) -> Start:
    """A network of which a user says what is `gone`, or a former result, which says so itself; or both."""
    start = Start(former.model, former.gone, former.history) if isinstance(former, Forgotten) else Start(former, (), ())
    if gone is None:
        return start
    said: list[Any] = numbered(gone, model=start.model, data=data, label_key=label_key)
    return start._replace(gone=tuple(dict.fromkeys([*start.gone, *said])))
