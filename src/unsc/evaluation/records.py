"""Records that were forgotten, beside unseen samples of their classes and beside what retraining says of them."""

from __future__ import annotations

from torch import Tensor

from unsc.errors import InvalidRequest
from unsc.evaluation.distance import counterpart, floor, js_distance
from unsc.evaluation.shared.attacks import enough, log_probability
from unsc.evaluation.shared.bootstrap import intervals
from unsc.evaluation.shared.case import Case
from unsc.evaluation.shared.metrics import Metric, Value, measures
from unsc.evaluation.shared.roc import roc
from unsc.evaluation.shared.shares import accuracy_on, correct, share


@measures(
    Metric(
        "records_acc",
        "records",
        "reference",
        "%",
        "Accuracy on the forgotten records; records only. Retraining gets about its accuracy on unseen samples.",
    )
)
def accuracy_on_records(case: Case) -> dict[str, Value]:
    """The detail has the accuracy on unseen samples of the records' classes."""
    _of_records(case)
    detail = {"unseen": accuracy_on(case, "forget_test")}
    return {"records_acc": share(correct(case, "forget_train"), detail)}


@measures(
    Metric(
        "loss_attack_auc",
        "loss attack",
        "reference",
        "",
        "AUC of an attack that takes what has a small loss for a record, between the forgotten records and unseen "
        "samples of their classes; records only; 0.5 is chance.",
    )
)
def loss_attack(case: Case) -> dict[str, Value]:
    """The records are positives, test samples of their classes negatives."""
    _of_records(case)
    labels = [case.labels(part).cpu() for part in ("forget_train", "forget_test")]
    enough(min(map(len, labels)), "records, or test samples of their classes")
    members = log_probability(case.logits("forget_train"), labels[0])
    outsiders = log_probability(case.logits("forget_test"), labels[1])
    sizes = len(members), len(outsiders)
    ((low, high),) = intervals(lambda p, n: roc(members, outsiders, (p, n)).auc()[:, None], sizes, seed=case.seed)
    return {"loss_attack_auc": Value(float(roc(members, outsiders).auc()), sum(sizes), low, high, {"chance": 0.5})}


@measures(
    Metric(
        "js_records",
        "JS records",
        "lower",
        "",
        "Mean Jensen-Shannon distance, 0 to 1, on the forgotten records between the predictions and the retrained "
        "model's; records only.",
        ("retrained",),
    )
)
def distance_on_records(case: Case) -> dict[str, Value]:
    """The detail has the distance between two retrained models, if there is a second one."""
    _of_records(case)
    found = _distances(case)
    half = 1.96 * found.std().item() / len(found) ** 0.5 if len(found) > 1 else 0.0
    mean = found.mean().item()
    lowest = floor(case)
    detail = None if lowest is None else {"floor": _distances(lowest).mean().item()}
    return {"js_records": Value(mean, len(found), max(0.0, mean - half), min(1.0, mean + half), detail)}


def _distances(case: Case) -> Tensor:
    """Of the model's predictions for the records to those of the retrained one, (n,)."""
    return js_distance(case.logits("forget_train"), case.logits("forget_train", counterpart(case)))


def _of_records(case: Case) -> None:
    if case.request.kind != "records":
        raise InvalidRequest("this is measured for records only; for whole classes see forget_test_acc and ulira_auc")
