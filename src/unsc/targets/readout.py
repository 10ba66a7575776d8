"""Which records a network knows only by heart: what a linear read-out of one of its layers says, fitted without them.

A network's last layers hold what it memorised; there a record looks like its class whatever it shows. Its middle layers
do not: a linear classifier on their features that was not fitted on a sample judges it much as a network would that
never saw it. The layer to read is the one whose read-out cannot tell training samples from unseen ones, and of those
the one that agrees best with the network itself on unseen samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.features import inputs_of_layers
from unsc.layers import needed_kind
from unsc.logits import logits_of
from unsc.ranks import agreement, auc
from unsc.targets.scores import Scores, margins

_GRID, _VALUES = 4, 1024
"""A map is pooled to at most 4 by 4 positions, and to about so many values."""
_SHRINKAGE = 1.0
"""Of the ridge regression, in units of the features' variance: features are many and samples few."""
_TELLS = 0.55
"""A read-out whose AUC between training and unseen samples is above this reads what was memorised."""
_LAYERS = 12
"""At most so many layers are read, spread over the depth."""


@dataclass(frozen=True)
class Views:
    """What a network makes of samples: its scores, and the pooled inputs of its layers (n, values) by name."""

    scores: Scores
    features: Mapping[str, Tensor]


@dataclass(frozen=True)
class Readout:
    """Margins by a read-out that was fitted on other samples."""

    layer: str
    forgotten: Tensor
    """Of the records, (n,)."""
    trained: Tensor
    """Of other samples that the network was trained on, (m,)."""
    unseen: Tensor
    """Of samples that it was not trained on, (k,)."""
    tells: float
    """AUC between trained and unseen samples: 0.5 if the read-out cannot tell them apart."""
    agreement: float
    """Rank correlation with the network's own margins on unseen samples."""


@torch.no_grad()
def views_of(model: nn.Module, batches: Sequence[Batch]) -> Views:
    """A network's scores and features for samples, on the CPU."""
    logits: list[Tensor] = []
    features: dict[str, list[Tensor]] = {}
    paths: Sequence[str] | None = None
    for batch in batches:
        with inputs_of_layers(model, paths) as seen:
            logits.append(logits_of(model, batch.for_model(model)).float().cpu())
        usable = {path: x for path, x in seen.items() if x.dim() >= 2 and len(x) == len(batch)}
        paths = _spread(list(usable)) if paths is None else paths
        for path in paths:
            if path in usable:
                module = model.get_submodule(path)
                values = coarse(usable[path], channels=needed_kind(module).channels(module))
                features.setdefault(path, []).append(values.float().cpu())
    whole = {path: torch.cat(parts) for path, parts in features.items() if len(parts) == len(logits)}
    return Views(Scores(torch.cat(logits), torch.cat([batch.labels.cpu() for batch in batches])), whole)


def read_out(fit: Views, forgotten: Views, trained: Views, unseen: Views) -> Readout | None:
    """The best read-out, fitted on `fit`; None if every layer's tells what the network was trained on."""
    own = margins(unseen.scores)
    found: list[Readout] = []
    for layer, features in fit.features.items():
        judge = Ridge.fitted(features, fit.scores)
        first, second, third = (judge.margins(v.features[layer], v.scores.labels) for v in (forgotten, trained, unseen))
        found.append(Readout(layer, first, second, third, auc(second, third), agreement(third, own)))
    fair = [r for r in found if r.tells <= _TELLS and r.agreement > 0]
    return max(fair, key=lambda r: r.agreement, default=None)


@dataclass(frozen=True)
class Ridge:
    """A linear classifier by ridge regression on standardised features."""

    mean: Tensor
    scale: Tensor
    weights: Tensor
    """(values + 1, classes), the last row for the constant."""

    @classmethod
    def fitted(cls, features: Tensor, scores: Scores) -> Ridge:
        mean, scale = features.mean(dim=0), features.std(dim=0) + 1e-6
        rows = _with_constant((features - mean) / scale)
        wanted = F.one_hot(scores.labels, scores.logits.shape[1]).float()
        ridge = _SHRINKAGE * len(rows)
        if len(rows) < rows.shape[1]:  # the same weights from the smaller matrix of the two
            return cls(mean, scale, rows.T @ _solved(rows @ rows.T, ridge, wanted))
        return cls(mean, scale, _solved(rows.T @ rows, ridge, rows.T @ wanted))

    def margins(self, features: Tensor, labels: Tensor) -> Tensor:
        """Of samples with these features (n, values) and labels (n,)."""
        return margins(Scores(_with_constant((features - self.mean) / self.scale) @ self.weights, labels))


def coarse(x: Tensor, *, channels: int) -> Tensor:
    """A layer's input as (n, values): a map on a coarse grid, a sequence as the mean of its positions.

    `channels` is the dimension of its channels, counted from the end.
    """
    if x.dim() == 4 and channels == -3:
        grid = max(1, min(_GRID, int((_VALUES / x.shape[1]) ** 0.5)))
        return F.adaptive_avg_pool2d(x, (min(grid, x.shape[2]), min(grid, x.shape[3]))).flatten(1)
    if x.dim() == 2:
        return x
    return x.movedim(channels, 1).flatten(2).mean(dim=2)


def _solved(moment: Tensor, ridge: float, right: Tensor) -> Tensor:
    """`(moment + ridge I)^-1 right`, of a moment that is at least 0."""
    moment.diagonal().add_(ridge)
    return torch.cholesky_solve(right, torch.linalg.cholesky(moment))


def _with_constant(rows: Tensor) -> Tensor:
    return torch.cat([rows, torch.ones(len(rows), 1)], dim=1)


def _spread(paths: Sequence[str]) -> Sequence[str]:
    """At most twelve of them, evenly over the depth, the deepest among them."""
    if len(paths) <= _LAYERS:
        return paths
    return [paths[round(i * (len(paths) - 1) / (_LAYERS - 1))] for i in range(_LAYERS)]
