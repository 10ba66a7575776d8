"""What is left of the forgotten classes inside the network, behind its predictions."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from unsc.batches import Batch, join
from unsc.evaluation.distance import counterpart, floor
from unsc.evaluation.shared.alignment import linear_cka
from unsc.evaluation.shared.case import Case, Part
from unsc.evaluation.shared.metrics import Metric, Value, measures
from unsc.evaluation.shared.probes import knn_probe, linear_probe, stratified
from unsc.evaluation.shared.shares import percent, share
from unsc.features import layer_inputs

_TRAINED_ON = 2000
"""Training samples that a probe is fitted on."""

_PROBES = {"probe_linear": linear_probe, "probe_knn": knn_probe}


@measures(
    Metric("probe_linear", "linear probe", "reference", "%", "Recall on forgotten test samples of a linear classifier "
           "of all classes, fitted on the inputs of the network's last layer for training samples."),
    Metric("probe_knn", "kNN probe", "reference", "%", "Recall on forgotten test samples of a vote of the five "
           "nearest training samples, by the inputs of the network's last layer."),
)  # fmt: skip
def probe_recall(case: Case) -> dict[str, Value]:
    """The value is that of the last layer; the detail has all layers, and the retrained model's beside them."""
    batch = _training_samples(case)
    mine = _hits(case, case.model, batch)
    reference = _hits(case, case.retrained, batch) if case.retrained is not None else None
    found = {}
    for name, by_layer in mine.items():
        theirs = list(reference[name].values()) if reference is not None else []
        rows = []
        for i, (layer, hits) in enumerate(by_layer.items()):
            row: dict[str, Any] = {"layer": layer, "value": percent(hits)}
            if len(theirs) == len(by_layer):
                row |= {"retrained": percent(theirs[i]), "difference": percent(hits) - percent(theirs[i])}
            rows.append(row)
        found[name] = share(list(by_layer.values())[-1], rows)
    return found


@measures(
    Metric("cka_forget", "CKA forget", "reference", "", "Linear centred kernel alignment, 0 to 1, of the last layer's "
           "inputs with the retrained model's, on forgotten test samples.", ("retrained",)),
    Metric("cka_retain", "CKA retain", "reference", "", "Linear centred kernel alignment, 0 to 1, of the last layer's "
           "inputs with the retrained model's, on retained test samples.", ("retrained",)),
)  # fmt: skip
def alignment_with_retraining(case: Case) -> dict[str, Value]:
    """The value is that of the last layer; the detail has all layers, and what two retrained models have in common."""
    lowest = floor(case)
    parts: tuple[tuple[str, Part], ...] = (("cka_forget", "forget_test"), ("cka_retain", "retain_test"))
    found = {}
    for name, part in parts:
        by_layer = _alignment(case, part)
        detail: dict[str, Any] = {"layers": [{"layer": layer, "value": v} for layer, v in by_layer.items()]}
        if lowest is not None:
            detail["floor"] = list(_alignment(lowest, part).values())[-1]
        found[name] = Value(list(by_layer.values())[-1], len(case.parts[part]), detail=detail)
    return found


def _training_samples(case: Case) -> Batch:
    both = join([case.parts["forget_train"], case.parts["retain_train"]])
    return both[stratified(both.labels.cpu(), _TRAINED_ON, seed=case.seed).to(both.labels.device)]


def _hits(case: Case, model: nn.Module, trained_on: Batch) -> dict[str, dict[str, Tensor]]:
    """Which forgotten test samples each probe recognises, bool (n,), by probe and layer."""
    seen, unseen = layer_inputs(model, trained_on), layer_inputs(model, case.parts["forget_test"])
    labels, truth = trained_on.labels.cpu(), case.labels("forget_test").cpu()
    return {
        name: {layer: probe(x, labels, unseen[layer], seed=case.seed) == truth for layer, x in seen.items()}
        for name, probe in _PROBES.items()
    }


def _alignment(case: Case, part: Part) -> dict[str, float]:
    """By the judged model's layers, matched in order; the last alone if the two models do not have equally many."""
    mine, theirs = (layer_inputs(model, case.parts[part]) for model in (case.model, counterpart(case)))
    names = list(mine) if len(mine) == len(theirs) else list(mine)[-1:]
    pairs = zip(names, list(theirs.values())[-len(names) :], strict=True)
    return {name: linear_cka(mine[name], y) for name, y in pairs}
