"""The values that a setting may take while it is tuned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

Setting: TypeAlias = bool | int | float | str | None
"""The value of a setting."""


class Suggests(Protocol):
    """What is needed of an Optuna trial, so that methods do not need Optuna."""

    def suggest_int(self, name: str, low: int, high: int, *, log: bool = False) -> int: ...

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float: ...

    def suggest_categorical(self, name: str, choices: Sequence[Setting]) -> Setting: ...


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, whole ones if both are; with `log`, every order of magnitude is equally likely."""

    low: float
    high: float
    log: bool = False

    def suggest(self, trial: Suggests, name: str) -> float:
        """A value chosen by an Optuna trial."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            return trial.suggest_int(name, self.low, self.high, log=self.log)
        return trial.suggest_float(name, self.low, self.high, log=self.log)


@dataclass(frozen=True)
class Choice:
    """One of a few values."""

    values: tuple[Setting, ...]

    def suggest(self, trial: Suggests, name: str) -> Setting:
        """A value chosen by an Optuna trial."""
        return trial.suggest_categorical(name, list(self.values))


Space: TypeAlias = Range | Choice
