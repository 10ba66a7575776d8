"""Membership attacks on an unlearned model: can anybody tell what it was trained on before?"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from unsc.errors import InvalidData, InvalidRequest
from unsc.evaluation.shared import kept, lira
from unsc.evaluation.shared.attacks import enough, entropy, into_range, log_odds, log_probability, take_for_outsiders
from unsc.evaluation.shared.bootstrap import intervals
from unsc.evaluation.shared.case import Case, Part, Shadows
from unsc.evaluation.shared.contest import contest
from unsc.evaluation.shared.metrics import Metric, Value, measures
from unsc.evaluation.shared.roc import Roc, roc
from unsc.evaluation.shared.shares import wilson

_MOST = 2000
"""Members, and as many non-members, that an SVC learns from: one feature needs no more, and it takes n² time."""
_FPR = 0.01


@measures(
    Metric(
        "mia_confidence",
        "MIA",
        "higher",
        "",
        "The paper's attack: share of forgotten training samples that an SVC on the confidence takes for never seen.",
    ),
    Metric("mia_loss", "MIA loss", "higher", "", "The same attack with the loss instead of the confidence."),
    Metric("mia_entropy", "MIA entr.", "higher", "", "The same attack with the entropy of the prediction."),
)
def confidence_attack(case: Case) -> dict[str, Value]:
    """True negative rates, 0 to 1, of an SVC that learned to tell retained training from retained test samples."""
    generator = torch.Generator().manual_seed(case.seed)
    size = min(len(case.parts["retain_train"]), len(case.parts["retain_test"]), _MOST)
    enough(size, "retained samples of train and of test")
    members = torch.randperm(len(case.parts["retain_train"]), generator=generator)[:size]
    outsiders = torch.randperm(len(case.parts["retain_test"]), generator=generator)[:size]
    known = _features(case, "retain_train"), _features(case, "retain_test")
    values: dict[str, Value] = {}
    for name, judged in _features(case, "forget_train").items():
        inside, outside = known[0][name][members], known[1][name][outsiders]
        if name != "mia_confidence":  # a probability, which is never far from the known ones
            judged = into_range(judged, inside, outside)
        gone, accuracy = take_for_outsiders(inside, outside, judged)
        hits, n = int(gone.sum()), len(gone)
        low, high = (bound / 100 for bound in wilson(hits, n))
        detail = {"members": size, "non_members": size, "attack_accuracy": accuracy}
        values[name] = Value(hits / n, n, low, high, detail)
    return values


def _features(case: Case, part: Part) -> dict[str, Tensor]:
    logits = case.logits(part)
    log_p = log_probability(logits, case.labels(part).cpu())
    return {"mia_confidence": log_p.exp(), "mia_loss": -log_p, "mia_entropy": entropy(logits)}


@measures(
    Metric(
        "rmia_auc",
        "RMIA",
        "reference",
        "",
        "AUC of RMIA between forgotten training samples and test samples of the same classes; in theory 0.5 "
        "for a retrained model.",
        ("references",),
    ),
    Metric(
        "rmia_tpr",
        "RMIA 1%",
        "reference",
        "",
        "Share of forgotten training samples that RMIA finds at a false positive rate of 1 %; in theory no more than "
        "0.01 for a retrained model.",
        ("references",),
    ),
)
def relative_attack(case: Case) -> dict[str, Value]:
    """RMIA with positives that were trained on and forgotten, and negatives that nobody ever trained on."""
    drawn = contest(case, "forget_train", "forget_validation", "forget_test")
    members, outsiders = drawn.scores(case)
    detail = drawn.detail | {"smallest_fpr": 1 / len(outsiders), "chance": 0.5}
    sizes = len(members), len(outsiders)
    bounds = intervals(lambda p, n: _both(roc(members, outsiders, (p, n))), sizes, seed=case.seed)
    return _values(("rmia_auc", "rmia_tpr"), roc(members, outsiders), bounds, sum(sizes), detail)


@measures(
    Metric(
        "retain_privacy_change",
        "Δ privacy",
        "lower",
        "",
        "AUC of RMIA on retained samples minus that for the original model: above 0, unlearning exposed what stayed.",
        ("original", "references"),
    )
)
def retained_privacy(case: Case) -> dict[str, Value]:
    """Both models are attacked on the same samples."""
    drawn = contest(case, "retain_train", "retain_validation", "retain_test")
    now, before = drawn.scores(case), drawn.scores(case.of(case.needed("original")))
    aucs = [float(roc(*scores).auc()) for scores in (now, before)]
    sizes = len(now[0]), len(now[1])
    difference = lambda p, n: (roc(*now, (p, n)).auc() - roc(*before, (p, n)).auc())[:, None]  # noqa: E731
    ((low, high),) = intervals(difference, sizes, seed=case.seed)
    detail = drawn.detail | {"auc": aucs[0], "original_auc": aucs[1]}
    return {"retain_privacy_change": Value(aucs[0] - aucs[1], sum(sizes), low, high, detail)}


@measures(
    Metric(
        "ulira_auc",
        "U-LiRA",
        "reference",
        "",
        "AUC of U-LiRA between this model and retrained ones on the forgotten training samples; 0.5 is chance.",
        ("shadows", "retrained"),
    ),
    Metric(
        "ulira_tpr",
        "U-LiRA 1%",
        "reference",
        "",
        "Share of forgotten training samples that U-LiRA recognises as unlearned, at a false positive rate of 1 %.",
        ("shadows", "retrained"),
    ),
)
def shadow_attack(case: Case) -> dict[str, Value]:
    """Positives: this model's scores. Negatives: all retrained models' on the same samples, drawn together."""
    shadows, unseen = _attackers(case)
    labels = case.labels("forget_train").cpu()

    def odds(*models: nn.Module) -> Tensor:
        return torch.stack([log_odds(case.logits("forget_train", model), labels) for model in models])

    of_shadows = odds(*shadows.unlearned), odds(*shadows.retrained)
    judged = odds(case.model)[0]
    scores = lira.attack(judged, odds(*unseen) if unseen else judged[None][:0], *of_shadows)
    detail = {"variance": lira.spread(_fewest(shadows))}
    return _told_apart(("ulira_auc", "ulira_tpr"), case, scores, detail)


@measures(
    Metric(
        "ulira_kept_auc",
        "U-LiRA kept",
        "reference",
        "",
        "AUC of the attack on predictions over the classes that stay, the forgotten outputs left out of all models, "
        "between this model with its shadows and retrained ones; whole classes only; 0.5 is chance.",
        ("shadows", "retrained"),
    ),
    Metric(
        "ulira_kept_tpr",
        "kept 1%",
        "reference",
        "",
        "Share of forgotten training samples that this attack recognises as unlearned, at a false positive rate of "
        "1 %.",
        ("shadows", "retrained"),
    ),
)
def shadow_attack_on_kept_classes(case: Case) -> dict[str, Value]:
    """Hiding or cutting off a forgotten output changes nothing here: what it hid is what is looked at."""
    if case.request.kind == "records":
        raise InvalidRequest("this attack is for whole classes only; use ulira_auc for records")
    stay = case.request.kept
    if int(stay.sum()) < 2:
        raise InvalidRequest("one class stays, and a prediction over it says nothing; at least two must stay")
    shadows, unseen = _attackers(case)

    def seen(*models: nn.Module) -> dict[str, Tensor]:
        """By statistic, (models, n, d)."""
        logits = [case.logits("forget_train", model)[:, stay] for model in models]
        found = {name: [of(x) for x in logits] for name, of in kept.STATISTICS.items()}
        return {name: torch.stack(values) for name, values in found.items()}

    unlearned, retrained = seen(*shadows.unlearned), seen(*shadows.retrained)
    name, tried = kept.strongest(unlearned, retrained)
    judged = seen(case.model)[name]
    others = seen(*unseen)[name] if unseen else judged[:0]
    scores = kept.attack(judged, others, unlearned[name], retrained[name])
    return _told_apart(("ulira_kept_auc", "ulira_kept_tpr"), case, scores, {"statistic": name, "on_shadows": tried})


def _attackers(case: Case) -> tuple[Shadows, list[nn.Module]]:
    """The shadows, and the retrained models beside them that the judged one is compared with."""
    shadows, retrained = case.needed("shadows"), case.needed("retrained")
    if _fewest(shadows) < 2:
        raise InvalidData(
            f"there are {len(shadows.unlearned)} unlearned and {len(shadows.retrained)} retrained shadows; "
            "a variance needs at least 2 of each"
        )
    enough(len(case.parts["forget_train"]), "forgotten training samples")
    return shadows, [m for m in (retrained, case.twin) if m is not None and m is not case.model]


def _fewest(shadows: Shadows) -> int:
    return min(len(shadows.unlearned), len(shadows.retrained))


def _told_apart(
    names: tuple[str, str], case: Case, scores: tuple[Tensor, Tensor], about: Mapping[str, object]
) -> dict[str, Value]:
    """AUC and true positive rate of a shadow attack, from the scores that `lira.attack` gives."""
    (positives, negatives), size = scores, len(case.parts["forget_train"])
    shadows, unseen = _attackers(case)
    p, n = len(positives) // size, len(negatives) // size
    draw = lambda t: _both(roc(positives, negatives, (t.repeat(1, p), t.repeat(1, n))))  # noqa: E731
    bounds = intervals(draw, [size], seed=case.seed)
    left_out = len(shadows.retrained) if len(shadows.retrained) > 2 else 0
    detail = {
        "unlearned_shadows": len(shadows.unlearned),
        "retrained_shadows": len(shadows.retrained),
        **about,
        "retrained_models": len(unseen) + left_out,
        "smallest_fpr": 1 / len(negatives),
        "chance": 0.5,
    }
    return _values(names, roc(positives, negatives), bounds, size, detail)


def _both(curve: Roc) -> Tensor:
    """AUC and true positive rate, (..., 2)."""
    return torch.stack([curve.auc(), curve.tpr(_FPR)], dim=-1)


def _values(
    names: tuple[str, str], curve: Roc, bounds: list[tuple[float, float]], n: int, detail: dict[str, object]
) -> dict[str, Value]:
    found = zip(names, _both(curve).tolist(), bounds, strict=True)
    return {name: Value(value, n, low, high, detail) for name, value, (low, high) in found}
