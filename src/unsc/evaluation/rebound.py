"""Does the forgotten come back when something else is forgotten later?"""

from __future__ import annotations

import copy

import torch

from unsc.errors import InvalidData, listing
from unsc.evaluation.shared.case import Case
from unsc.evaluation.shared.measures import Metric, Value, measures
from unsc.evaluation.utility import accuracy, correct, share


@measures(
    Metric("rebound", "rebound", "lower", "points", "What the accuracy on forgotten test samples gains when a later "
           "request is carried out on the same model.", ("later",)),
    Metric("later_forget_acc", "later forget", "lower", "%", "Accuracy on test samples of the later request's classes "
           "after it was carried out.", ("later",)),
)  # fmt: skip
def rebound_after_later_request(case: Case) -> dict[str, Value]:
    assert case.later is not None
    asked = torch.isin(case.labels("retain_test").cpu(), torch.tensor(case.later.classes))
    if not asked.any():
        raise InvalidData(
            f"retain_test has no samples of the later classes {listing(case.later.classes)}; "
            "give classes that the first request retains"
        )
    after = case.later.run(copy.deepcopy(case.model))  # whatever it does, the judged model stays as it is
    before, gained = accuracy(case, "forget_test"), accuracy(case, "forget_test", after)
    detail = {"before": before, "after": gained}
    return {
        "rebound": Value(gained - before, len(case.parts["forget_test"]), detail=detail),
        "later_forget_acc": share(correct(case, "retain_test", after)[asked]),
    }
