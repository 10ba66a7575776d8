"""Does the forgotten come back when something else is forgotten later?"""

from __future__ import annotations

import copy

import torch

from unsc.errors import InvalidData, listing
from unsc.evaluation.shared.case import Case
from unsc.evaluation.shared.metrics import Metric, Value, measures
from unsc.evaluation.shared.shares import accuracy_on, correct, share
from unsc.request import of_classes


@measures(
    Metric("rebound", "rebound", "lower", "points", "Gain in accuracy on forgotten test samples when later requests "
           "are carried out on the same model, one after the other.", ("later",)),
    Metric("later_forget_acc", "later forget", "lower", "%", "Accuracy on test samples of the later requests' "
           "classes after all of them were carried out.", ("later",)),
    Metric("taken_for_gone", "taken for gone", "lower", "%", "Share of all test samples that are then classified as "
           "any class that was forgotten, first or later.", ("later",)),
)  # fmt: skip
def rebound_after_later_requests(case: Case) -> dict[str, Value]:
    later = case.needed("later")
    asked = of_classes(case.labels("retain_test").cpu(), later.classes)
    if not asked.any():
        raise InvalidData(
            f"retain_test has no samples of the later classes {listing(later.classes)}; "
            "give classes that the first request retains"
        )
    after = later.run(copy.deepcopy(case.model))  # whatever it does, the judged model stays as it is
    before, gained = accuracy_on(case, "forget_test"), accuracy_on(case, "forget_test", after)
    detail = {"before": before, "after": gained, "later_requests": len(later.classes)}
    said = torch.cat([case.logits(part, after).argmax(dim=1) for part in ("forget_test", "retain_test")])
    return {
        "rebound": Value(gained - before, len(case.parts["forget_test"]), detail=detail),
        "later_forget_acc": share(correct(case, "retain_test", after)[asked]),
        "taken_for_gone": share(of_classes(said, (*case.classes, *later.classes))),
    }
