"""Where a setting may be looked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, whole ones if both are; `log` looks at orders of magnitude alike."""

    low: float
    high: float
    log: bool = False

    def suggest(self, trial: Any, name: str) -> float:
        """A value chosen by an Optuna trial."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            return trial.suggest_int(name, self.low, self.high, log=self.log)
        return trial.suggest_float(name, self.low, self.high, log=self.log)


@dataclass(frozen=True)
class Choice:
    """One of a few values."""

    values: tuple[Any, ...]

    def suggest(self, trial: Any, name: str) -> Any:
        """A value chosen by an Optuna trial."""
        return trial.suggest_categorical(name, list(self.values))


Space: TypeAlias = Range | Choice
