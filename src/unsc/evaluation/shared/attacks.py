"""What an attacker reads from a prediction, and the attack that the paper reports.

Everything starts from the log-odds of the true label, in float64: probabilities that round to 1 still differ there.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from unsc.errors import InvalidData, UnsupportedModel
from unsc.extras import need

_FEWEST = 5


def log_odds(logits: Tensor, labels: Tensor) -> Tensor:
    """log(p / (1 - p)) of the true label's probability p, (n,), from logits (n, classes) and labels (n,).

    It is the true label's logit minus the log-sum-exp of all others, so nothing rounds to 0 before the logarithm.
    """
    logits, column = _finite(logits), labels[:, None]
    others = logits.scatter(1, column, -torch.inf).logsumexp(dim=1)
    return logits.gather(1, column).squeeze(1) - others


def log_probability(logits: Tensor, labels: Tensor) -> Tensor:
    """log p of the true label, (n,)."""
    return F.logsigmoid(log_odds(logits, labels))


def entropy(logits: Tensor) -> Tensor:
    """The entropy of each prediction in nats, (n,), between 0 and log(classes).

    Common implementations go wrong in one of three ways: p * log(p) of a probability that rounded to 0 is NaN;
    a small constant within the logarithm makes the entropy of a certain prediction negative; and the "modified"
    entropy is often written with `p[:, labels]`, which takes the columns of all labels for each sample.
    """
    log_p = _finite(logits).log_softmax(dim=1)
    return -(log_p.exp() * log_p).sum(dim=1).clamp(max=0)  # log_p is finite: 0 * log 0 comes out as 0


def take_for_outsiders(members: Tensor, outsiders: Tensor, judged: Tensor) -> tuple[Tensor, float]:
    """Which of the `judged` samples are taken for non-members by one feature, bool (n,), all inputs being (n,).

    An SVC with a Gaussian kernel, C=3 and gamma="auto" learns to tell `members` from `outsiders`, as in the code of
    Fan et al., "SalUn: Empowering Machine Unlearning via Gradient-based Weight Saliency in Both Image Classification
    and Generation", ICLR 2024. Also returned: its accuracy on what it was fitted on, 0.5 if the feature carries no
    information.
    """
    need("sklearn", extra="eval")
    from sklearn.svm import SVC

    known = torch.cat([members, outsiders])[:, None].numpy()
    is_member = torch.cat([torch.ones(len(members)), torch.zeros(len(outsiders))]).numpy()
    attack = SVC(C=3, gamma="auto", kernel="rbf").fit(known, is_member)
    verdict = torch.from_numpy(attack.predict(judged[:, None].numpy()))
    return verdict == 0, float(attack.score(known, is_member))


def into_range(judged: Tensor, *known: Tensor) -> Tensor:
    """`judged` moved into the range of the `known` values.

    Far from everything it was fitted on, a Gaussian kernel is 0 and an SVC's verdict is the sign of its intercept,
    which has nothing to do with the sample. So a loss of 1e4 is judged like the greatest known loss.
    """
    every = torch.cat(known)
    return judged.clamp(every.min(), every.max())


def enough(count: int, what: str) -> None:
    """Refuse to attack with so few samples that the outcome would mean nothing."""
    if count < _FEWEST:
        raise InvalidData(f"there are {count} {what}; a membership attack needs at least {_FEWEST}: give more samples")


def _finite(logits: Tensor) -> Tensor:
    if not torch.isfinite(logits).all():
        raise UnsupportedModel("the model returns NaN or Inf; to put a class out of reach give it a logit such as -1e4")
    return logits.double()
