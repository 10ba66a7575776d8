"""The labels that mislabelled records should have had."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from unsc.targets import Scores, fitting_labels
from unsc.targets.readout import Views

CLASSES, DRAWN = 4, torch.Generator().manual_seed(0)


def views(features: dict[str, Tensor], labels: Tensor) -> Views:
    """Of a network that is certain of the labels that it was given."""
    return Views(Scores(9.0 * F.one_hot(labels, CLASSES), labels), features)


def noisy(labels: Tensor, noise: float) -> Tensor:
    """Features that say of a sample what it is called, and nothing else."""
    return F.one_hot(labels, CLASSES) + noise * torch.randn(len(labels), CLASSES, generator=DRAWN)


def shown(count: int) -> tuple[Tensor, Tensor]:
    """What samples show, and labels of which each is another one."""
    right = torch.randint(CLASSES, (count,), generator=DRAWN)
    return right, (right + torch.randint(1, CLASSES, (count,), generator=DRAWN)) % CLASSES


def test_a_layer_is_read_that_does_not_know_wrong_labels_by_heart() -> None:
    """The last layer is the surest of what stays, and says of records what they were called; the first says nothing."""
    right, wrong = shown(50)
    stays = torch.randint(CLASSES, (200,), generator=DRAWN)
    records = views({"first": noisy(right, 9.0), "middle": noisy(right, 0.3), "last": noisy(wrong, 0.01)}, wrong)
    others = views({"first": noisy(stays, 9.0), "middle": noisy(stays, 0.3), "last": noisy(stays, 0.01)}, stays)
    found = fitting_labels(records, others)
    assert found is not None
    assert (found.argmax(dim=1) == right).float().mean() > 0.9


def test_retained_samples_do_not_vouch_for_themselves() -> None:
    """With more values than samples every fit is exact. A layer of noise is no better for it."""
    right, wrong = shown(50)
    stays = torch.randint(CLASSES, (60,), generator=DRAWN)
    noise = [torch.randn(n, 400, generator=DRAWN) for n in (50, 60)]
    records = views({"noise": 1e3 * noise[0], "layer": noisy(right, 0.8)}, wrong)
    others = views({"noise": 1e3 * noise[1], "layer": noisy(stays, 0.8)}, stays)
    found = fitting_labels(records, others)
    assert found is not None
    assert (found.argmax(dim=1) == right).float().mean() > 0.45


def test_a_network_without_layers_to_read_says_nothing() -> None:
    right, wrong = shown(5)
    assert fitting_labels(views({}, wrong), views({}, right)) is None
