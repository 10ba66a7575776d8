"""Can the forgotten classes be read from the network's features? Simple classifiers on top of them tell."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from unsc.errors import InvalidData
from unsc.extras import need

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier

_DIMENSIONS = 64
_NEIGHBOURS = 5
_ITERATIONS = 50


def linear_probe(x: Tensor, labels: Tensor, unseen: Tensor, *, seed: int) -> Tensor:
    """The classes (m,) of `unseen` (m, d) by a linear classifier that was fitted on features `x` (n, d) and `labels`.

    Features are standardised and reduced to their 64 principal components at most.
    """
    need("sklearn", extra="eval")
    from sklearn.linear_model import LogisticRegression

    return _predict(LogisticRegression(max_iter=_ITERATIONS), x, labels, unseen, seed)


def knn_probe(x: Tensor, labels: Tensor, unseen: Tensor, *, seed: int) -> Tensor:
    """The same by the vote of the five nearest samples."""
    need("sklearn", extra="eval")
    from sklearn.neighbors import KNeighborsClassifier

    return _predict(KNeighborsClassifier(min(_NEIGHBOURS, len(x))), x, labels, unseen, seed)


def stratified(labels: Tensor, limit: int, *, seed: int) -> Tensor:
    """About `limit` positions (k,) of `labels` (n,) in ascending order: the same share of each class, at least one."""
    if len(labels) <= limit:
        return torch.arange(len(labels))
    generator = torch.Generator().manual_seed(seed)
    chosen = []
    for k in labels.unique().tolist():
        of_class = (labels == k).nonzero().flatten()
        wanted = max(1, round(len(of_class) * limit / len(labels)))
        chosen.append(of_class[torch.randperm(len(of_class), generator=generator)[:wanted]])
    return torch.cat(chosen).sort().values


def _predict(
    classifier: LogisticRegression | KNeighborsClassifier, x: Tensor, labels: Tensor, unseen: Tensor, seed: int
) -> Tensor:
    if len(labels.unique()) < 2:
        raise InvalidData(f"all samples are of class {labels[0].item()}; a probe needs two classes or more")
    from sklearn.decomposition import PCA
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    reduce = PCA(min(_DIMENSIONS, *x.shape), random_state=seed)
    probe = make_pipeline(StandardScaler(), reduce, classifier)
    with warnings.catch_warnings():
        # A probe that is nearly fitted is good enough; features of a dead layer have no variance to divide by.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        probe.fit(x.double().numpy(), labels.numpy())
        return torch.from_numpy(np.asarray(probe.predict(unseen.double().numpy())))
