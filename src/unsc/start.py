"""Where a request starts: a network, or the result of a former request, and what the call brings along."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from unsc.history import Past
from unsc.logits import OfOutput
from unsc.models import working_copy
from unsc.names import numbered
from unsc.progress import Progress, quiet
from unsc.result import Forgotten


@dataclass(frozen=True)
class Start:
    """A network, what it has forgotten, and how it is to be run."""

    model: nn.Module
    """The user's, which is left as it is."""
    original: nn.Module
    """A working copy of it."""
    gone: tuple[int, ...] = ()
    """Classes that it was made to forget before, ascending."""
    history: tuple[Past, ...] = ()
    """The requests that are known, oldest first."""
    logits: OfOutput | None = None
    """Takes what the model returns and gives its logits, where it does not return them."""
    began: float = field(default_factory=time.perf_counter)
    """When the call began, a reading of `time.perf_counter`."""
    progress: Progress = quiet

    @classmethod
    def of(
        cls,
        former: nn.Module | Forgotten,
        gone: Iterable[int | str] | int | str | None = None,
        *,
        data: Iterable[object] = (),
        label_key: str | None = None,
        logits: OfOutput | None = None,
        progress: Progress = quiet,
    ) -> Start:
        """A network of which a user says what is `gone`, or a former result, which says so itself; or both."""
        began = time.perf_counter()
        if isinstance(former, Forgotten):
            model, lost, history = former.model, former.gone, former.history
        else:
            model, lost, history = former, (), ()
        if gone is not None:
            said: list[Any] = numbered(gone, model=model, data=data, label_key=label_key)
            lost = tuple(dict.fromkeys([*lost, *said]))
        return cls(model, working_copy(model, logits=logits), lost, history, logits, began, progress)
