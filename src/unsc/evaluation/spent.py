"""What forgetting cost, and what share that is of retraining."""

from __future__ import annotations

from unsc.errors import InvalidData
from unsc.evaluation.shared.case import Case
from unsc.evaluation.shared.metrics import Metric, Value, measures


@measures(Metric("seconds", "time", "lower", "s", "Wall-clock time of unlearning.", ("cost",)))
def time_spent(case: Case) -> dict[str, Value]:
    return {"seconds": Value(case.needed("cost").seconds, 1)}


@measures(Metric("peak_mib", "memory", "lower", "MiB", "Peak memory of unlearning.", ("cost",)))
def memory_spent(case: Case) -> dict[str, Value]:
    return {"peak_mib": Value(_known(case.needed("cost").peak_mib, "unlearning"), 1)}


@measures(
    Metric("seconds_share", "time share", "lower", "%", "Wall-clock time of unlearning in percent of retraining's.",
           ("cost", "retrained_cost"))
)  # fmt: skip
def time_share_of_retraining(case: Case) -> dict[str, Value]:
    mine, theirs = case.needed("cost"), case.needed("retrained_cost")
    return {"seconds_share": _percent(mine.seconds, theirs.seconds, "seconds")}


@measures(
    Metric("memory_share", "memory share", "lower", "%", "Peak memory of unlearning in percent of retraining's.",
           ("cost", "retrained_cost"))
)  # fmt: skip
def memory_share_of_retraining(case: Case) -> dict[str, Value]:
    mine = _known(case.needed("cost").peak_mib, "unlearning")
    theirs = _known(case.needed("retrained_cost").peak_mib, "retraining")
    return {"memory_share": _percent(mine, theirs, "MiB")}


def _known(peak: float | None, of: str) -> float:
    if peak is None:
        raise InvalidData(
            f"the memory that {of} took is unknown, since this system does not report it; measure it on Linux or CUDA"
        )
    return peak


def _percent(part: float, whole: float, unit: str) -> Value:
    if whole <= 0:
        raise InvalidData(f"retraining took {whole:g} {unit}, so there is no share of it; measure retraining again")
    return Value(100 * part / whole, 1)
