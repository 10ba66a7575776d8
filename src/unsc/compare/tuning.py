"""Choose a method's settings on validation data, every method with the same number of tries and the same time."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from unsc.batches import Batch
from unsc.compare.scoring import LOWEST, RULE, Score
from unsc.errors import InvalidData, InvalidRequest
from unsc.extras import need
from unsc.methods import Method, Problem, apply
from unsc.models import working_copy
from unsc.progress import Progress, quiet
from unsc.storage.files import write_json
from unsc.storage.versions import versions

if TYPE_CHECKING:
    import optuna as optuna_


@dataclass(frozen=True)
class Try:
    """Settings that were tried; accuracies on validation data in percent."""

    settings: dict[str, Any]
    retain_acc: float
    forget_acc: float
    score: float
    """By the rule of `unsc.compare.scoring`; the highest is chosen."""
    seconds: float
    """At work: other work on the machine does not use up the time for tuning."""
    diverged: str | None


@dataclass(frozen=True)
class Tuned:
    """What was tried, and which of it was chosen."""

    method: str
    budget: dict[str, Any]
    tries: tuple[Try, ...]

    @property
    def best(self) -> Try:
        """The highest score; of equal ones the first, and the published settings are always tried first."""
        return max(self.tries, key=lambda one: one.score)

    def save(self, path: Path) -> None:
        content = {
            "method": self.method,
            "chosen": self.best.settings if self.tries else None,
            "budget": self.budget,
            "tries": [asdict(one) for one in self.tries],
            "versions": versions(),
        }
        write_json(path, content)

    @classmethod
    def load(cls, path: Path) -> Tuned:
        try:
            content = json.loads(path.read_text())
            tries = content["tries"] if "tries" in content else content["attempts"]  # the key up to 0.2.0
            return cls(content["method"], content["budget"], tuple(Try(**one) for one in tries))
        except (OSError, ValueError, KeyError, TypeError) as e:
            raise InvalidData(f"{path} does not hold a method's tuning ({e}); remove it, or tune again") from e


def tune(
    method: Method,
    problem: Problem,
    validation: tuple[Batch, Batch],
    *,
    tries: int,
    seconds: float,
    given: Mapping[str, Any] = MappingProxyType({}),
    path: Path | None = None,
    data: str | None = None,
    progress: Progress = quiet,
) -> Tuned:
    """Try settings of `method` on `problem`, at most `tries` times and for `seconds`; those `given` stay as they are.

    `validation` are retained and forgotten samples that the network was not trained on; for records, samples that it
    was not trained on, and the records. What was tried is written to `path` after every try, and a search that was
    stopped resumes from there, unless it was of other `data`, by their name.
    """
    if tries < 1 or seconds <= 0:
        raise InvalidRequest(f"tries={tries}, seconds={seconds}; give at least one try and more than 0 seconds")
    budget = {"tries": tries, "seconds": seconds, "seed": problem.seed, "classes": problem.classes, "score": RULE}
    budget |= {} if data is None else {"data": data}
    method = replace(method, search={name: space for name, space in method.search.items() if name not in given})
    done = _former(method, path, budget)
    most = tries if method.search else 1

    def unfinished() -> bool:
        return len(done) < most and sum(one.seconds for one in done) < seconds

    if not unfinished():
        return Tuned(method.name, budget, tuple(done))
    score = Score.of(problem, validation)
    search = Search(method, problem.seed, done)
    with progress(f"tuning {method.name}", most) as advance:
        while unfinished():
            settings = search.ask()
            done.append(_try(method, problem, score, {**settings, **given}))
            search.tell(done[-1].score)
            if path is not None:
                Tuned(method.name, budget, tuple(done)).save(path)
            advance()
    return Tuned(method.name, budget, tuple(done))


class Search:
    """Proposes settings of a method, the published ones first, then by how earlier ones scored."""

    def __init__(self, method: Method, seed: int, former: Sequence[Try] = ()) -> None:
        optuna = need("optuna", extra="tune")
        optuna.logging.set_verbosity(logging.WARNING)
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=5)
        self._study: optuna_.Study = optuna.create_study(direction="maximize", sampler=sampler)
        self._study.enqueue_trial({name: method.defaults[name] for name in method.search})
        self._space = method.search
        self._asked: optuna_.Trial | None = None
        for one in former:  # the sampler is asked again, so that its random numbers continue where they stopped
            if (asked := self.ask()) != {name: one.settings.get(name) for name in asked}:
                raise InvalidRequest(
                    f"{one.settings} was tried where the search would try {asked} now: {method.name} was searched in "
                    "another way then; name another file, or tune again with --overwrite"
                )
            self.tell(one.score)

    def ask(self) -> dict[str, Any]:
        """Settings to try next, by name."""
        self._asked = self._study.ask()
        return {name: space.suggest(self._asked, name) for name, space in self._space.items()}

    def tell(self, score: float) -> None:
        """Report how the settings that were asked for last did."""
        if self._asked is None:
            raise InvalidRequest("there are no settings to tell a score of; call ask() first")
        self._study.tell(self._asked, score)
        self._asked = None


def _former(method: Method, path: Path | None, budget: dict[str, Any]) -> list[Try]:
    if path is None or not path.exists():
        return []
    former = Tuned.load(path)
    same = former.method == method.name and former.budget["seed"] == budget["seed"]
    same = same and former.budget.get("data", budget.get("data")) == budget.get("data")
    if not same or list(former.budget["classes"] or ()) != list(budget["classes"] or ()):
        raise InvalidRequest(
            f"{path} holds the tuning of {former.method} on another problem; name another file, or replace "
            "it with --overwrite"
        )
    unfinished = method.search and 0 < len(former.tries) < budget["tries"]
    if unfinished and former.budget.get("score") != RULE:
        raise InvalidRequest(
            f"{path} holds tries that an earlier version scored by another rule; name another file, or tune again with "
            "--overwrite"
        )
    return list(former.tries)


def _try(method: Method, problem: Problem, score: Score, settings: dict[str, Any]) -> Try:
    result = apply(method, problem, **settings)
    if result.model is None or result.diverged is not None:
        return Try(settings, 0.0, 100.0, LOWEST, result.cost.at_work, result.diverged)
    return Try(settings, *score.judged(working_copy(result.model)), result.cost.at_work, None)
