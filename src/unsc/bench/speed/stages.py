"""How long the stages of a request take, seen from outside: through the progress that it reports."""

from __future__ import annotations

import time
import warnings
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

from torch import nn
from torch.utils.data import Dataset

from unsc.api import forget
from unsc.errors import HeadOnlyWarning, NotForgottenWarning
from unsc.progress import Advance
from unsc.result import Forgotten

_LOOP = "forgetting"
"""What a run calls its loop."""


class Enough(Exception):
    """Ends a run that was to be seen up to here."""


class Stages:
    """A `Progress` that notes when the loop of a run begins and when each step is done.

    It may end the run after so many steps, 0 for the preparation alone.
    """

    def __init__(self, most_steps: int | None = None) -> None:
        self.began = time.perf_counter()
        self.most_steps = most_steps
        self.preparation = 0.0
        """Seconds until the first step: samples, watch, moments, curvature or null space, pseudo-labels."""
        self.loop = 0.0
        """Seconds of all steps and checks."""
        self._done: list[float] = []

    @property
    def steps(self) -> int:
        return len(self._done)

    @property
    def seconds_per_step(self) -> float:
        """From the first step's end to the last one's: with checks at every fourth step, the first and last excluded.

        After 17 steps these are 16, with four checks and at least one measurement of how layers add up.
        """
        return (self._done[-1] - self._done[0]) / (len(self._done) - 1)

    @contextmanager
    def __call__(self, description: str, total: int) -> Generator[Advance, None, None]:
        if description != _LOOP:
            yield lambda: None
            return
        begins = time.perf_counter()
        self.preparation = begins - self.began
        if self.most_steps == 0:
            raise Enough

        def advance() -> None:
            self._done.append(time.perf_counter())
            if len(self._done) == self.most_steps:
                raise Enough

        try:
            yield advance
        finally:
            self.loop = time.perf_counter() - begins


def stages_of(model: nn.Module, dataset: Dataset[Any], *, most_steps: int | None = None, **options: Any) -> Stages:
    """The stages of a class request, which is ended after `most_steps` steps: 0 for the preparation alone."""
    stages = Stages(most_steps)
    with suppress(Enough):
        carried_out(model, dataset, progress=stages, **options)
    return stages


def carried_out(model: nn.Module, dataset: Dataset[Any], **options: Any) -> Forgotten:
    """`forget`, without a word if what it forgets is not forgotten: a benchmark says what was reached in its table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotForgottenWarning)
        warnings.simplefilter("ignore", HeadOnlyWarning)
        return forget(model, dataset, **options)
