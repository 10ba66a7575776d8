"""Choose a method's settings on validation data, every method with the same number of trials and the same time."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from unsc.batches import Batch
from unsc.errors import InvalidData, InvalidRequest
from unsc.logits import accuracy
from unsc.methods import Method, Problem, apply
from unsc.models import working_copy
from unsc.progress import Progress, quiet
from unsc.storage.files import write_json
from unsc.storage.versions import versions


@dataclass(frozen=True)
class Attempt:
    """One try of some settings; accuracies on validation data in percent."""

    settings: dict[str, Any]
    retain_acc: float
    forget_acc: float
    score: float
    """Mean of the share of retained samples that are right and the share of forgotten ones that are not; a product
    would be 0 for everything that has not begun to forget, and tell the search nothing."""
    seconds: float
    diverged: str | None


@dataclass(frozen=True)
class Tuned:
    """What was tried, and which of it was chosen."""

    method: str
    budget: dict[str, Any]
    attempts: tuple[Attempt, ...]

    @property
    def best(self) -> Attempt:
        """The highest score; of equal ones the first, and the published settings are always tried first."""
        return max(self.attempts, key=lambda attempt: attempt.score)

    def save(self, path: Path) -> None:
        content = {
            "method": self.method,
            "chosen": self.best.settings if self.attempts else None,
            "budget": self.budget,
            "attempts": [asdict(attempt) for attempt in self.attempts],
            "versions": versions(),
        }
        write_json(path, content)

    @classmethod
    def load(cls, path: Path) -> Tuned:
        try:
            content = json.loads(path.read_text())
            attempts = tuple(Attempt(**attempt) for attempt in content["attempts"])
            return cls(content["method"], content["budget"], attempts)
        except (OSError, ValueError, KeyError, TypeError) as e:
            raise InvalidData(f"{path} does not hold a method's tuning ({e}); remove it, or tune again") from e


def tune(
    method: Method,
    problem: Problem,
    validation: tuple[Batch, Batch],
    *,
    trials: int,
    seconds: float,
    given: Mapping[str, Any] = MappingProxyType({}),
    path: Path | None = None,
    progress: Progress = quiet,
) -> Tuned:
    """Try settings of `method` on `problem`, at most `trials` times and for `seconds`; those `given` stay as they are.

    `validation` are retained and forgotten samples that the network was not trained on. What was tried is written
    to `path` after every attempt, and taken up from there.
    """
    if trials < 1 or seconds <= 0:
        raise InvalidRequest(f"trials={trials}, seconds={seconds}; give at least one trial and more than 0 seconds")
    budget = {"trials": trials, "seconds": seconds, "seed": problem.seed, "classes": problem.classes}
    method = replace(method, search={name: space for name, space in method.search.items() if name not in given})
    attempts = _former(method, path, budget)
    most = trials if method.search else 1
    with progress(f"tuning {method.name}", most) as advance:
        ask, tell = _study(method, problem.seed, attempts)
        while len(attempts) < most and sum(attempt.seconds for attempt in attempts) < seconds:
            settings, handle = ask()
            attempt = _attempt(method, problem, validation, {**settings, **given})
            tell(handle, attempt.score)
            attempts.append(attempt)
            if path is not None:
                Tuned(method.name, budget, tuple(attempts)).save(path)
            advance()
    return Tuned(method.name, budget, tuple(attempts))


def _former(method: Method, path: Path | None, budget: dict[str, Any]) -> list[Attempt]:
    if path is None or not path.exists():
        return []
    former = Tuned.load(path)
    same = former.method == method.name and former.budget["seed"] == budget["seed"]
    if not same or list(former.budget["classes"] or ()) != list(budget["classes"] or ()):
        raise InvalidRequest(f"{path} holds the tuning of {former.method} on another problem; name another file")
    return list(former.attempts)


def _study(method: Method, seed: int, former: list[Attempt]) -> tuple[Callable[[], Any], Callable[[Any, float], None]]:
    """Two functions: one that asks for settings to try, one that tells how they did."""
    import optuna

    optuna.logging.set_verbosity(logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=5))
    first = {name: method.defaults[name] for name in method.search}
    study.enqueue_trial(first)

    def ask() -> tuple[dict[str, Any], Any]:
        trial = study.ask()
        return {name: space.suggest(trial, name) for name, space in method.search.items()}, trial

    def tell(trial: Any, score: float) -> None:
        study.tell(trial, score)

    for attempt in former:  # the sampler is asked again, so that its random numbers go on where they stopped
        _, trial = ask()
        tell(trial, attempt.score)
    return ask, tell


def _attempt(method: Method, problem: Problem, validation: tuple[Batch, Batch], settings: dict[str, Any]) -> Attempt:
    result = apply(method, problem, **settings)
    unusable = result.model is None or result.diverged is not None
    retain, forget = (0.0, 100.0) if unusable else (accuracy(working_copy(result.model), part) for part in validation)  # type: ignore[arg-type]
    score = 0.0 if unusable else (retain + 100 - forget) / 200
    return Attempt(settings, retain, forget, score, result.cost.seconds, result.diverged)
