"""Tune one method by itself, and test the choice once."""

from __future__ import annotations

import json
from pathlib import Path

from unsc.compare.plan import Config, tuning
from unsc.compare.scenarios import scenario
from unsc.compare.tuning import Tuned, tune
from unsc.errors import Diverged
from unsc.logits import accuracy
from unsc.methods import apply, find
from unsc.models import working_copy
from unsc.progress import Progress, quiet
from unsc.storage.files import write_json


def choose(
    method: str,
    data: str,
    *,
    tries: int,
    seconds: float,
    seed: int,
    path: Path,
    overwrite: bool = False,
    progress: Progress = quiet,
) -> tuple[Tuned, dict[str, float]]:
    """What was tried on validation data, and the test accuracy in percent of the choice, computed once.

    Both are written to `path`. A search that was stopped resumes from there, unless it is to `overwrite` what is there.
    """
    where = scenario(data)  # its module may register methods
    chosen = find(method)
    training, classes = tuning(Config(data, (method,), seed=seed), where.num_classes)
    with progress("training the network", 1) as advance:
        model = where.recipe(where.train, training.seed)
        advance()
    problem = where.problem(model, classes, seed=training.seed)
    validation = where.to_choose_by(classes)
    if overwrite:
        path.unlink(missing_ok=True)
    tuned = tune(chosen, problem, validation, tries=tries, seconds=seconds, path=path, data=data, progress=progress)
    applied = apply(chosen, problem, **tuned.best.settings)
    if applied.model is None or applied.diverged is not None:
        raise Diverged(f"{method} diverged with every setting that was tried; the tries are in {path}")
    parts = where.parts_of("test", classes)
    chosen_model = working_copy(applied.model)  # whatever mode it was left in
    test = {f"{part}_acc": accuracy(chosen_model, parts[f"{part}_test"]) for part in ("retain", "forget")}  # type: ignore[index]
    write_json(path, json.loads(path.read_text()) | {"test": test})
    return tuned, test
