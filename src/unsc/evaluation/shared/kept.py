"""What a prediction over the classes that stay tells of a sample of a class that went.

The score of a forgotten class is no evidence: a mask moves it anywhere, and a released network need not have it. So
the forgotten outputs are left out, of all models, and the rest is what a network that never had them would show.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from unsc.evaluation.shared.attacks import entropy, log_odds
from unsc.evaluation.shared.gaussian import score
from unsc.evaluation.shared.roc import roc

LEAST = 3
"""With so many shadows of each kind one of them can be left out to try a statistic on."""


def all_log_odds(logits: Tensor) -> Tensor:
    """log(p / (1 - p)) of every class, (n, classes), from logits (n, classes)."""
    log_p = logits.double().log_softmax(dim=1)
    odds = log_p - torch.log1p(-log_p.exp())
    # The one probability that may round to 1 is the greatest; its odds are taken from the logits.
    top = logits.argmax(dim=1)
    return odds.scatter(1, top[:, None], log_odds(logits, top)[:, None])


def _confidence(logits: Tensor) -> Tensor:
    return log_odds(logits, logits.argmax(dim=1))[:, None]


def _margin(logits: Tensor) -> Tensor:
    best = logits.double().topk(2, dim=1).values
    return best[:, :1] - best[:, 1:]


def _entropy(logits: Tensor) -> Tensor:
    return entropy(logits)[:, None]


STATISTICS: dict[str, Callable[[Tensor], Tensor]] = {
    "all log-odds": all_log_odds,
    "confidence": _confidence,
    "margin": _margin,
    "entropy": _entropy,
}
"""What an attack may look at, (n, d), of logits (n, classes that stay). The first is used where none can be chosen."""


def strongest(unlearned: dict[str, Tensor], retrained: dict[str, Tensor]) -> tuple[str, dict[str, float]]:
    """The statistic that tells shadows apart best, and the AUC of each; from (models, n, d) by statistic.

    One shadow of each kind is left out in turn and attacked with a fit to the others. The judged model takes no part.
    """
    first = next(iter(STATISTICS))
    if min(len(unlearned[first]), len(retrained[first])) < LEAST:
        return first, {}
    found = {}
    for name in STATISTICS:
        nobody = unlearned[name][:0]
        found[name] = float(roc(*attack(nobody, nobody, unlearned[name], retrained[name])).auc())
    return max(found, key=lambda name: found[name]), found


def attack(judged: Tensor, unseen: Tensor, unlearned: Tensor, retrained: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of unlearned models, and of retrained ones to compare with, each (folds * models * n,).

    From what judged models, retrained ones that are no shadows, and the shadows say of n samples, each (models, n, d).
    A pair of shadows, one of each kind, is left out in turn and joins the others of its kind, so that every model is
    scored by a fit it took no part in. What the shadows add is certainty: one network differs from the next as a
    whole, whatever it was trained on, and a single one may happen to look retrained. With two shadows nothing would be
    left to fit to, and none is left out.
    """
    pairs = min(len(unlearned), len(retrained))
    if pairs < LEAST:
        others = unseen if len(unseen) else judged
        return score(judged, unlearned, retrained).flatten(), score(others, unlearned, retrained).flatten()
    positives, negatives = [], []
    for i in range(pairs):
        fit = _without(unlearned, i), _without(retrained, i)
        positives.append(score(torch.cat([judged, unlearned[i : i + 1]]), *fit).flatten())
        negatives.append(score(torch.cat([unseen, retrained[i : i + 1]]), *fit).flatten())
    return torch.cat(positives), torch.cat(negatives)


def _without(models: Tensor, i: int) -> Tensor:
    return torch.cat([models[:i], models[i + 1 :]])
