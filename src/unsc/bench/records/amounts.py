"""From one record to a tenth of the data, of all classes, of one class and of one user: noisy digits."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.api import forget
from unsc.batches import Batch
from unsc.bench.memorising import noisy_digits
from unsc.bench.records.case import Case, Row
from unsc.bench.records.looking import drawn, look, unwarned, worst_class
from unsc.bench.records.photographs import Bed
from unsc.datasets import read
from unsc.features import find_last_linear, head_inputs
from unsc.logits import accuracy

COUNTS = {1: 5, 10: 3, 96: 1}
"""Records of all classes, and how many draws of them."""
OF_ONE = 30
"""Records of one class."""
OF_A_USER = 20


def rows(bed: Bed, seed: int) -> Iterator[Row]:
    """An original, and what every request makes of it."""
    original = bed.network(bed.trial(seed).original)
    train, test = bed.read("train"), bed.read("test")
    own = (train.labels == seed).nonzero().flatten()
    draws = [(n, i) for n, times in COUNTS.items() for i in range(times)]
    requests = [(f"{n} of all classes", drawn(len(train), n, 100 * seed + i)) for n, i in draws]
    requests.append((f"{OF_ONE} of one class", own[drawn(len(own), OF_ONE, seed)].tolist()))
    requests.append((f"{OF_A_USER} alike", alike(original, train, bed.data.num_classes, seed)))
    test_before = accuracy(original, test)
    for what, indices in requests:
        with unwarned():
            result = forget(original, bed.data.train, indices=indices, validation=bed.data.validation)
        metrics = result.metrics
        found = look(result.model, read(bed.data.train, indices), test)
        yield {
            "what": what,
            **found,
            "before": metrics.records.acc_before if metrics.records else 0.0,
            "lost": test_before - found["test_acc"],
            "worst_class": worst_class(original, result.model, test),
            "steps": metrics.steps,
            "status": metrics.status if metrics.stopped != "undone" else "undone",
        }


@torch.no_grad()
def alike(model: nn.Module, train: Batch, num_classes: int, seed: int) -> list[int]:
    """Records like those of one user: a random one, and those of its class whose features are nearest."""
    head = find_last_linear(model, train[torch.arange(2)], num_classes)
    pieces = (train[chosen] for chosen in torch.arange(len(train)).split(256))
    features: Tensor = torch.cat([F.normalize(b.inputs.flatten(1), dim=1) for b in head_inputs(model, head, pieces)])
    first = drawn(len(train), 1, seed)[0]
    near = (features @ features[first]).masked_fill(train.labels != train.labels[first], -2.0)
    return sorted(near.topk(OF_A_USER).indices.tolist())


CASE = Case(
    "amounts",
    "So many of 958 noisy digits",
    {
        "before": "records right %, before",
        "records_acc": "after",
        "attack": "loss attack",
        "lost": "test accuracy lost",
        "worst_class": "worst class lost",
        "steps": "steps",
        "status": "status",
    },
    (0, 1),
    lambda models, seed: rows(Bed(noisy_digits(), models, records=48), seed),
)
