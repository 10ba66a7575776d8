"""A metric of your own: one function with one decorator, in one file.

`forget_entropy` says how undecided a model is about the test samples that it was to forget.

- `@measures` registers the function and declares what it computes: a name, a title for tables, which way is better
  ("higher", "lower", or "reference" for as near to retraining as possible), a unit, and one sentence. Metrics that
  share their work may share a function.
- A metric that needs more than the model and its data says so, `Metric(..., ("retrained",))`. Where that is missing the
  metric is skipped with the reason, or refused if somebody asked for it by name. `case.needed("retrained")` gets it.
- The function takes a `Case` and returns a `Value` for each metric: the number, the samples it is from, and an interval
  if there is one. `case.logits(part)` computes the scores of a part once for all metrics.
- Every metric is also computed of the original, of a retrained model and of controls that only hide a class: a metric
  that cannot tell those apart is marked as fooled. Look at that column before you trust your metric.

A metric of this package is such a function in a file of `src/unsc/evaluation/`; nothing else needs to know of it.
Elsewhere it is registered when its file is imported.
"""

from __future__ import annotations

from unsc.evaluation.shared.attacks import entropy
from unsc.evaluation.shared.case import Case
from unsc.evaluation.shared.metrics import Metric, Value, measures


@measures(
    Metric(
        "forget_entropy",
        "entropy",
        "reference",
        "nats",
        "Mean entropy of the predictions for forgotten test samples; 0 for a model that is always certain.",
    )
)
def forget_entropy(case: Case) -> dict[str, Value]:
    of_each = entropy(case.logits("forget_test"))
    return {"forget_entropy": Value(of_each.mean().item(), len(of_each))}
