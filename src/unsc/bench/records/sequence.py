"""Ten requests for records, one after the other, the records of each deleted after it; beside all of them at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torch import nn
from torch.utils.data import Subset

from unsc.api import forget
from unsc.bench.memorising import noisy_digits
from unsc.bench.records.case import Case, Row
from unsc.bench.records.looking import drawn, look, unwarned
from unsc.compare.scenarios import Scenario
from unsc.datasets import read, size_of
from unsc.logits import accuracy
from unsc.result import Forgotten

REQUESTS, EACH = 10, 10


def rows(models: Path, seed: int) -> Iterator[Row]:
    """Noisy digits: the original, a network retrained without all of the records, and ours in two ways."""
    data = noisy_digits()
    everyone = drawn(size_of(data.train), REQUESTS * EACH, seed)
    original = data.recipe(data.train, seed)
    retrained = data.recipe(data.without((), everyone), 1000 + seed)
    records, test = read(data.train, everyone), read(data.test, range(size_of(data.test)))
    with unwarned():
        once = forget(original, data.train, indices=everyone, validation=data.validation, seed=seed).model
        turns, after = in_turn(original, data, [everyone[i::REQUESTS] for i in range(REQUESTS)], seed)
    for what, model in (("original", original), ("retrained", retrained), ("at once", once)):
        yield {"what": what, **look(model, records, test, retrained)}
    yield {"what": "in turn", **look(turns, records, test, retrained), "right_then": after}


def in_turn(model: nn.Module, data: Scenario, requests: list[list[int]], seed: int) -> tuple[nn.Module, float]:
    """The network after all requests, and the records' mean accuracy right after their own."""
    left = list(range(size_of(data.train)))
    found: list[float] = []
    former: nn.Module | Forgotten = model
    for own in requests:
        here = Subset(data.train, left)
        indices = [left.index(i) for i in own]
        former = forget(former, here, indices=indices, validation=data.validation, seed=seed)
        model = former.model
        found.append(accuracy(model, read(data.train, own)))
        left = [i for i in left if i not in set(own)]
    return model, sum(found) / len(found)


CASE = Case(
    "sequence",
    f"Noisy digits, {REQUESTS} requests for {EACH} records each",
    {
        "records_acc": "records right %",
        "right_then": "right after their own request",
        "attack": "loss attack",
        "test_acc": "test %",
        "js": "JS to retrained, bits",
    },
    (0, 1, 2),
    rows,
)
