"""Does the forgotten come back when something else is forgotten later?"""

from __future__ import annotations

import copy

from unsc.errors import InvalidData, listing
from unsc.evaluation.shared.case import Case
from unsc.evaluation.shared.metrics import Metric, Value, measures
from unsc.evaluation.shared.shares import accuracy_on, correct, share
from unsc.request import of_classes


@measures(
    Metric("rebound", "rebound", "lower", "points", "Gain in accuracy on forgotten test samples when a later request "
           "is carried out on the same model.", ("later",)),
    Metric("later_forget_acc", "later forget", "lower", "%", "Accuracy on test samples of the later request's "
           "classes after it was carried out.", ("later",)),
)  # fmt: skip
def rebound_after_later_request(case: Case) -> dict[str, Value]:
    later = case.needed("later")
    asked = of_classes(case.labels("retain_test").cpu(), later.classes)
    if not asked.any():
        raise InvalidData(
            f"retain_test has no samples of the later classes {listing(later.classes)}; "
            "give classes that the first request retains"
        )
    after = later.run(copy.deepcopy(case.model))  # whatever it does, the judged model stays as it is
    before, gained = accuracy_on(case, "forget_test"), accuracy_on(case, "forget_test", after)
    detail = {"before": before, "after": gained}
    return {
        "rebound": Value(gained - before, len(case.parts["forget_test"]), detail=detail),
        "later_forget_acc": share(correct(case, "retain_test", after)[asked]),
    }
