"""This package's own step: forgetting within a budget of retained prediction change."""

from __future__ import annotations

from typing import Any

from unsc.datasets import as_source, size_of
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.search import Range
from unsc.options import Options
from unsc.reference import NO_REFERENCE, Reference
from unsc.result import Forgotten
from unsc.run import run
from unsc.start import Start
from unsc.validation import read_validation


@method(
    needs=("forget", "retain"),
    search={"budget": Range(1e-4, 4e-3, log=True), "stop_mass": Range(1e-4, 1e-1, log=True)},
)
def unsc(
    problem: Problem,
    *,
    budget: float = 4e-4,
    max_passes: int | None = None,
    stop_mass: float = 0.01,
    hidden: float = 0.0,
) -> Forgotten:
    """Source: this package's `unsc.forget` with its default step, after Chen, Zhu, Yu, Zhou, "Machine Unlearning via
    Null Space Calibration", IJCAI 2024.

    Mechanism: gradient steps that move forgotten samples to the classes the original network finds most similar, each
    as long as a budget of predicted change of retained predictions allows, until their probability is `stop_mass`.

    For records, with held-out samples: they are moved to what the network says of unseen samples, until they are
    there. Without, away from their labels.

    Data: forgotten and retained; for records held-out samples, if there are any.

    Published: the paper's own step and settings are those of `unsc_paper`.

    Departures: a curvature, which says what a weight change costs retained predictions, takes the place of the hard
    null space, so that there is always room to move, and no learning rate is needed.
    """
    # Without held-out samples nothing says what records should become.
    targets = None if problem.classes or problem.gives("validation") else "soft"
    return carried_out(
        problem, budget=budget, max_passes=max_passes, stop_mass=stop_mass, hidden=hidden, targets=targets
    )


def carried_out(problem: Problem, **options: Any) -> Forgotten:
    """The result of a run of this package for a problem, with these options of `unsc.forget`.

    A method is measured by what it does: for records, a run that costs more than it gains is not undone.
    """
    kept = {} if problem.classes else {"least_gain": 0.0}
    chosen = Options.from_keywords({**options, **kept, "seed": problem.seed})
    return run(
        Start.of(problem.model, progress=problem.progress),
        problem.request,
        problem.forget,
        problem.retain,
        chosen,
        reference=NO_REFERENCE if problem.classes else _reference(problem),
    )


def _reference(problem: Problem) -> Reference:
    """The held-out samples of a problem, as far as they are needed."""
    if not problem.gives("validation"):
        return NO_REFERENCE
    source = as_source(problem.validation, problem.model)
    request, count = problem.request, size_of(problem.forget)
    found = read_validation(
        source, records=count, known=None, num_classes=problem.num_classes, seed=problem.seed, gone=request.gone
    )
    return Reference(found)
