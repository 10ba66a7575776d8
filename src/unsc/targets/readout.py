"""What a network would say of records if it did not know them by heart: a linear read-out of one of its layers.

A network's last layers hold what it memorised; there a record looks like its class whatever it shows. Its middle layers
do not. The read-out is fitted to the network's own scores, on samples that it was not trained on: of a layer's
features it says what the network says of such samples. The layer to read is the one whose read-out cannot tell training
samples from unseen ones, and of those the one that agrees best with the network itself on unseen samples, each judged
by a fit without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.features import inputs_of_layers
from unsc.gram import gram
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
    """What a read-out says of samples, each of which it was not fitted on."""

    layer: str
    forgotten: Scores
    """Of the records."""
    trained: Scores
    """Of other samples that the network was trained on."""
    unseen: Scores
    """Of samples that it was not trained on, each by a fit to the others."""
    tells: float
    """AUC between the margins of trained and unseen samples: 0.5 if the read-out cannot tell them apart."""
    agreement: float
    """Rank correlation with the network's own margins on unseen samples."""


@torch.no_grad()
def views_of(model: nn.Module, batches: Sequence[Batch], like: Views | None = None) -> Views:
    """A network's scores and features for samples, on the CPU: those of the same layers as in other views, if given."""
    logits: list[Tensor] = []
    features: dict[str, list[Tensor]] = {}
    paths: Sequence[str] | None = None if like is None else list(like.features)
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


def seen_in_all(*views: Views) -> list[str]:
    """The layers that all views have: by chance, what is no sample may be as many as the samples of a batch."""
    return [path for path in views[0].features if all(path in other.features for other in views)]


def read_out(forgotten: Views, trained: Views, unseen: Views) -> Readout | None:
    """The best read-out, fitted on `unseen`; None if every layer's tells what the network was trained on."""
    own = margins(unseen.scores)
    found: list[Readout] = []
    for layer in seen_in_all(forgotten, trained, unseen):
        judge, left_out = Ridge.fitted(unseen.features[layer], unseen.scores.logits)
        first, second = (Scores(judge(v.features[layer]), v.scores.labels) for v in (forgotten, trained))
        third = Scores(left_out, unseen.scores.labels)
        tells = auc(margins(second), margins(third))
        found.append(Readout(layer, first, second, third, tells, agreement(margins(third), own)))
    fair = [r for r in found if r.tells <= _TELLS and r.agreement > 0]
    return max(fair, key=lambda r: r.agreement, default=None)


@dataclass(frozen=True)
class Ridge:
    """A linear map by ridge regression on standardised features."""

    mean: Tensor
    scale: Tensor
    weights: Tensor
    """(values, outputs)."""
    level: Tensor
    """What it says of the mean features, (outputs,)."""

    @classmethod
    def fitted(cls, features: Tensor, wanted: Tensor) -> tuple[Ridge, Tensor]:
        """The regression of `wanted` (n, outputs) on `features` (n, values), and what fits without a sample say of it.

        The latter, (n, outputs), takes no other fit: a sample's own residual grows by how much it pulls at its fit.
        """
        mean, level = features.mean(dim=0), wanted.mean(dim=0)
        centred, ridge = features - mean, _SHRINKAGE * len(features)
        # As `std` has it, which takes ten times as long to go down columns.
        scale = (centred.square().sum(dim=0) / (len(features) - 1)).sqrt() + 1e-6
        rows = centred / scale
        if len(rows) <= rows.shape[1]:  # the same weights from the smaller matrix of the two
            inverse = torch.cholesky_inverse(_root(gram(rows.T), ridge))
            weights, pull = rows.T @ (inverse @ (wanted - level)), 1 - ridge * inverse.diagonal()
        else:
            root = _root(gram(rows), ridge)
            seen = torch.linalg.solve_triangular(root, rows.T, upper=False)
            weights = torch.linalg.solve_triangular(root.T, seen @ (wanted - level), upper=True)
            pull = seen.square().sum(dim=0)
        said = level + rows @ weights
        return cls(mean, scale, weights, level), wanted - (wanted - said) / (1 - 1 / len(rows) - pull)[:, None]

    def __call__(self, features: Tensor) -> Tensor:
        """What it says of features (n, values): (n, outputs)."""
        return self.level + (features - self.mean) / self.scale @ self.weights


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


def _root(moment: Tensor, ridge: float) -> Tensor:
    """The lower triangular root of `moment + ridge I`, of a moment that is at least 0 and is overwritten."""
    moment.diagonal().add_(ridge)
    return torch.linalg.cholesky(moment)


def _spread(paths: Sequence[str]) -> Sequence[str]:
    """At most twelve of them, evenly over the depth, the deepest among them."""
    if len(paths) <= _LAYERS:
        return paths
    return [paths[round(i * (len(paths) - 1) / (_LAYERS - 1))] for i in range(_LAYERS)]
