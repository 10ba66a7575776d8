"""U-LiRA: was a sample trained on and then unlearned, or never seen?

Kurmanji et al., "Towards Unbounded Machine Unlearning", NeurIPS 2023; Hayes et al., "Inexact Unlearning Needs More
Careful Evaluations to Avoid a False Sense of Privacy", 2024. For each sample, one Gaussian is fitted to the log-odds
that unlearned models give it and one to those of retrained models; the score is the log-likelihood ratio. Here every
shadow model forgets the same samples, so that an attack on one request costs one set of shadows.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import torch
from torch import Tensor

Spread: TypeAlias = Literal["pooled", "by sample"]

ENOUGH = 64
"""From so many models on, a variance for each sample beats a pooled one (Carlini et al., "Membership Inference
Attacks From First Principles", IEEE S&P 2022)."""
_LEAST = 1e-8
"""A variance below this is that of models which agree by construction; it keeps the scores finite."""


def spread(shadows: int) -> Spread:
    """How the variances of so many shadow models of a kind are estimated."""
    return "by sample" if shadows >= ENOUGH else "pooled"


def score(judged: Tensor, unlearned: Tensor, retrained: Tensor) -> Tensor:
    """The log-likelihood ratio of each sample, (..., n): positive where unlearned explains it better than never seen.

    From the log-odds of judged models (..., n) and of shadow models, two or more of each kind, (models, n).
    """
    how = spread(min(len(unlearned), len(retrained)))
    return _log_density(judged, unlearned, how) - _log_density(judged, retrained, how)


def attack(judged: Tensor, unseen: Tensor, unlearned: Tensor, retrained: Tensor) -> tuple[Tensor, Tensor]:
    """Scores of the judged model, and of retrained ones to compare with, each (folds * models * n,).

    From the log-odds (n,) of the judged model, and (models, n) of retrained models that are no shadows and of the
    shadows. Each retrained shadow is left out in turn and joins those to compare with: two models differ as a whole,
    whatever they were trained on, and it takes several to know by how much. All models of a fold are scored by the
    same fit, which none of them took part in, so that a judged model which was retrained itself is at chance. With two
    shadows nothing would be left to fit a variance to, and none is left out.
    """
    everyone = range(len(retrained))
    if len(everyone) < 3:
        others = unseen if len(unseen) else judged[None]
        return score(judged, unlearned, retrained), score(others, unlearned, retrained).flatten()
    positives, negatives = [], []
    for j in everyone:
        rest = retrained[[i for i in everyone if i != j]]
        positives.append(score(judged, unlearned, rest))
        negatives.append(score(torch.cat([unseen, retrained[j : j + 1]]), unlearned, rest).flatten())
    return torch.cat(positives), torch.cat(negatives)


def _log_density(x: Tensor, shadows: Tensor, how: Spread) -> Tensor:
    variance = shadows.var(dim=0)
    if how == "pooled":
        variance = variance.mean().expand_as(variance)
    variance = variance.clamp(min=_LEAST)
    return -0.5 * ((x - shadows.mean(dim=0)).square() / variance + torch.log(2 * math.pi * variance))
