"""RMIA: Zarifzadeh, Liu and Shokri, "Low-Cost High-Power Membership Inference Attacks", ICML 2024.

How likely does the judged model make a sample x, compared with models in general, p(x|θ)/p(x)? The score of x is the
share of other samples z, which nobody trained on, that x beats: (p(x|θ)/p(x)) / (p(z|θ)/p(z)) >= γ.

p(x) is the mean over models that saw x and models that did not. The offline form of the attack is used, which takes
the latter alone and p_in = a p_out + (1 - a), so that p(x) = ((1 + a) p_out + (1 - a)) / 2, for x and z alike. With the
online form, members would be compared with models that saw them and non-members, which no model saw, would not: the
attack would tell them apart by its own references, and a retrained model would not be at chance.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

GAMMA = 1.0
"""As in the authors' code. Where models are certain of most samples, hardly any ratio is much greater than 1."""


def slope(log_p: Tensor, saw: Tensor) -> float:
    """The `a` of p_in = a p_out + (1 - a), from reference models' log p (models, n) and who saw what, bool.

    It is the ratio of mean errors 1 - p, among models that saw a sample to those that did not. The authors tune it by
    attacking one of the reference models.
    """
    error = -torch.expm1(log_p)
    if not saw.any() or saw.all() or error[~saw].mean() == 0:
        return 1.0
    return float((error[saw].mean() / error[~saw].mean()).clamp(0, 1))


def log_ratio(judged: Tensor, references: Tensor, unseen: Tensor, a: float) -> Tensor:
    """log(p(x|θ) / p(x)), (n,).

    From log p of the judged model (n,) and of references (models, n); `unseen`, bool (models, n), says which models
    count for which sample: at least one for each.
    """
    p_out = references.masked_fill(~unseen, -torch.inf).logsumexp(dim=0) - unseen.sum(dim=0).double().log()
    p_in = torch.full_like(p_out, math.log((1 - a) / 2) if a < 1 else -torch.inf)
    return judged - torch.logaddexp(p_out + math.log((1 + a) / 2), p_in)


def score(of_x: Tensor, of_z: Tensor, gamma: float = GAMMA) -> Tensor:
    """The share of z that each x beats, (n,), from the log ratios (n,) of x and (m,) of z."""
    beaten = torch.searchsorted(of_z.sort().values, of_x - math.log(gamma), right=True)
    return beaten.double() / len(of_z)


def same_mix(wanted: Tensor, labels: Tensor, generator: torch.Generator) -> Tensor:
    """Positions in `labels` of as many samples as there can be with the shares of classes of `wanted`, int64.

    Otherwise an attack could tell two sets apart by their classes alone.
    """
    classes, counts = wanted.unique(return_counts=True)
    shares = counts / counts.sum()
    where = [(labels == k).nonzero().flatten() for k in classes.tolist()]
    total = min(len(w) / s for w, s in zip(where, shares.tolist(), strict=True))
    drawn = [
        w[torch.randperm(len(w), generator=generator)[: round(total * s)]]
        for w, s in zip(where, shares.tolist(), strict=True)
    ]
    return torch.cat(drawn)
