"""Tune one method by itself."""

from __future__ import annotations

import json
from pathlib import Path

from unsc.compare.plan import Config, tuning
from unsc.compare.scenarios import scenario
from unsc.compare.tuning import Tuned, tune
from unsc.errors import Diverged
from unsc.logits import accuracy
from unsc.methods import apply, find
from unsc.progress import Progress, quiet
from unsc.storage.files import write_json


def choose(
    method: str, data: str, *, trials: int, seconds: float, seed: int, path: Path, progress: Progress = quiet
) -> tuple[Tuned, dict[str, float]]:
    """What was tried on validation data, and the test accuracy in percent of the choice, computed once.

    Both are written to `path`; what is there already is taken up, not done again.
    """
    chosen, where = find(method), scenario(data)
    training, classes = tuning(Config(data, (method,), seed=seed), where.num_classes)
    with progress("training the network", 1) as advance:
        model = where.recipe(where.train, training.seed)
        advance()
    problem = where.problem(model, classes, seed=training.seed)
    validation = where.to_choose_by(classes)
    tuned = tune(chosen, problem, validation, trials=trials, seconds=seconds, path=path, progress=progress)
    applied = apply(chosen, problem, **tuned.best.settings)
    if applied.model is None:
        raise Diverged(f"{method} fell apart with every setting that was tried; the attempts are in {path}")
    parts = where.parts_of("test", classes)
    test = {f"{part}_acc": accuracy(applied.model, parts[f"{part}_test"]) for part in ("retain", "forget")}  # type: ignore[index]
    write_json(path, json.loads(path.read_text()) | {"test": test})
    return tuned, test
