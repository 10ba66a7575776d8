"""Gaussians of a few dimensions, one mean for each sample and one covariance for all, fitted to a few models.

A handful of shadow models gives a mean for each sample but no covariance. What is left after the means, of all samples
together, gives one; it is shrunk towards a multiple of the identity, since models differ as a whole and thousands of
residuals are not thousands of independent draws.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_LEAST = 1e-8
"""A variance below this is that of models which agree by construction; it keeps the scores finite."""


def shrunk_covariance(residuals: Tensor) -> Tensor:
    """The covariance (d, d) of centred rows (n, d), shrunk by the amount of Ledoit and Wolf.

    "A well-conditioned estimator for large-dimensional covariance matrices", Journal of Multivariate Analysis 2004.
    """
    n, d = residuals.shape
    plain = residuals.T @ residuals / n
    target = plain.diagonal().mean() * torch.eye(d, dtype=plain.dtype)
    apart = (plain - target).square().sum()
    # The mean squared distance of each row's outer product from the covariance, without forming the products.
    noise = (residuals.square().sum(dim=1).square().mean() - plain.square().sum()) / n
    share = (noise / apart).clamp(0, 1) if apart > 0 else apart.new_ones(())
    return (1 - share) * plain + share * target


def score(judged: Tensor, unlearned: Tensor, retrained: Tensor) -> Tensor:
    """The log-likelihood ratio of each sample, (..., n): positive where unlearned explains it better than never seen.

    From what judged models (..., n, d) and shadow models, two or more of each kind, (models, n, d) say of n samples.
    """
    return _log_density(judged, unlearned) - _log_density(judged, retrained)


def _log_density(x: Tensor, shadows: Tensor) -> Tensor:
    """Of a further model like the shadows: their mean is as uncertain as one of them divided by their number."""
    models, d = len(shadows), shadows.shape[-1]
    mean = shadows.mean(dim=0)
    residuals = (shadows - mean).flatten(0, 1) * math.sqrt(models / (models - 1))
    values, vectors = torch.linalg.eigh(shrunk_covariance(residuals) * (1 + 1 / models))
    values = values.clamp(min=_LEAST)
    squares = ((x - mean) @ vectors).square() / values
    return -0.5 * (squares.sum(dim=-1) + values.log().sum() + d * math.log(2 * math.pi))
