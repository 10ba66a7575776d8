"""What mislabelled records should have been called, as far as a network's own layers tell.

Its last layers hold the wrong labels: there such a record looks like what it was called. Its middle layers do not. So
a layer is read, by a linear map that is fitted to the labels of samples that stay.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from unsc.targets.readout import Ridge, Views, seen_in_all


def fitting_labels(records: Views, retained: Views) -> Tensor | None:
    """How much each label fits each record, (n, classes); None if no layer can be read.

    The layer is the one whose read-out gives retained samples their labels most often, each by a fit without it, less
    how often it gives records theirs, which are wrong: what knows those by heart is of no use.
    """
    right, wrong = retained.scores.labels, records.scores.labels
    wanted = F.one_hot(right, records.scores.logits.shape[1]).float()
    best, found = -2.0, None
    for layer in seen_in_all(retained, records):
        judge, left_out = Ridge.fitted(retained.features[layer], wanted)
        said = judge(records.features[layer])
        worth = _share(left_out, right) - _share(said, wrong)
        if worth > best:
            best, found = worth, said
    return found


def _share(scores: Tensor, labels: Tensor) -> float:
    """Of samples whose best score (n, classes) is that of their label (n,)."""
    return (scores.argmax(dim=1) == labels).double().mean().item()
