"""Targets of records: what a network that never saw them would say."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from unsc.errors import InvalidData, InvalidRequest
from unsc.ranks import agreement
from unsc.targets import (
    Away,
    Evidence,
    Lowered,
    Readout,
    Relabel,
    Scores,
    Unseen,
    find_targets,
    margins,
    pseudo_labels,
)
from unsc.targets.records import _weights, shifted_place

CLASSES = 5


def scores(n: int, seed: int, *, known: float = 0.0) -> Scores:
    """Random scores; the label's own is higher by `known`."""
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (n,), generator=g)
    return Scores(2 * torch.randn(n, CLASSES, generator=g) + known * F.one_hot(labels, CLASSES), labels)


def evidence(records: Scores, *, trained: Scores | None = None, readout: Readout | None = None) -> Evidence:
    removed = F.one_hot(records.labels, CLASSES).bool()
    return Evidence(records, removed, trained or records, scores(40, 2), readout)


def test_unseen_targets_have_exactly_the_margins_of_unseen_samples() -> None:
    """In the order of the records, if they are all there is to compare with and places are taken for certain."""
    records = scores(40, 1, known=4)
    given = evidence(records)
    targets = Unseen(spread=0).make(given)
    found = margins(Scores(targets.log(), records.labels))
    torch.testing.assert_close(found.sort().values, margins(given.unseen).sort().values, atol=1e-4, rtol=1e-4)
    assert torch.equal(found.argsort(), margins(records).argsort())


def test_later_requests_take_the_margins_of_the_first_network() -> None:
    """Not those of the network that earlier requests have made less certain."""
    records = scores(40, 1, known=4)
    first = torch.linspace(-2, 5, 40)
    targets = Unseen(spread=0).make(replace(evidence(records), unseen_margins=first))
    found = margins(Scores(targets.log(), records.labels))
    torch.testing.assert_close(found.sort().values, first, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("count", "apart", "by_themselves"), [(60, False, True), (20, False, False), (60, True, False)]
)
def test_few_records_and_those_that_stand_apart_are_compared_with_others(
    count: int, apart: bool, by_themselves: bool
) -> None:
    """By themselves, records have the mean margin of unseen samples; harder ones than others have a lower one."""
    trained = scores(400, 3, known=4)
    records = scores(count, 1, known=2 if apart else 4)
    given = evidence(records, trained=trained)
    found = margins(Scores(Unseen(spread=0).make(given).log(), records.labels)).mean().item()
    expected = margins(given.unseen).mean().item()
    assert (abs(found - expected) < 0.05) == by_themselves
    if apart:
        assert found < expected - 0.2


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
def test_other_classes_keep_their_relative_scores(spread: float) -> None:
    """Targets are distributions that differ from the network's own in the label's share alone."""
    records = scores(30, 1, known=3)
    targets = Unseen(spread=spread).make(evidence(records))
    torch.testing.assert_close(targets.sum(dim=1), torch.ones(30))
    left = ~F.one_hot(records.labels, CLASSES).bool()
    own, new = (p[left].view(30, -1) for p in (records.logits.softmax(dim=1), targets))
    torch.testing.assert_close(new / new.sum(dim=1, keepdim=True), own / own.sum(dim=1, keepdim=True))


@pytest.mark.parametrize("noise", [0.05, 0.3, 1.0])
def test_uniform_places_stay_uniform_after_an_error(noise: float) -> None:
    """Over all places and errors the mean is a half, and the deciles hold a tenth each."""
    place = (torch.arange(4000) + 0.5) / 4000
    offsets = torch.special.ndtri((torch.arange(200) + 0.5) / 200)
    moved = torch.stack([shifted_place(place, offset, noise) for offset in offsets.tolist()]).flatten()
    shares = torch.histc(moved, bins=10, min=0, max=1) / len(moved)
    torch.testing.assert_close(shares, torch.full((10,), 0.1), atol=5e-3, rtol=0)
    assert torch.equal(shifted_place(place, 1.0, 0.0), place)


def read(records: Scores, seed: int, agreed: float) -> Readout:
    """A read-out that has nothing to do with the network, on records that are also the other training samples."""
    said = Scores(scores(len(records), seed).logits, records.labels)
    return Readout("middle", said, said, scores(40, 2), 0.5, agreed)


def test_where_the_network_knows_all_by_heart_the_read_out_decides() -> None:
    """Its own margins have nothing to do with the read-out's, and so say nothing of unseen samples."""
    records = scores(400, 1, known=20)
    readout = read(records, 5, 0.7)
    targets = Unseen(spread=0).make(evidence(records, readout=readout))
    found = margins(Scores(targets.log(), records.labels))
    assert agreement(found, margins(readout.forgotten)) > 0.95
    assert agreement(found, margins(records)) < 0.3


def test_a_read_out_that_agrees_with_the_network_leaves_its_order() -> None:
    records = scores(60, 1, known=2)
    readout = Readout("middle", records, records, scores(40, 2), 0.5, 0.9)
    targets = Unseen(spread=0).make(evidence(records, readout=readout))
    found = margins(Scores(targets.log(), records.labels))
    assert torch.equal(found.argsort(), margins(records).argsort())
    torch.testing.assert_close(targets, Unseen(spread=0).make(evidence(records)))


@pytest.mark.parametrize(("first", "second"), [(0.6, 0.6), (0.8, 0.3), (0.5, 0.0)])
def test_two_measures_count_as_the_best_estimate_from_them(first: float, second: float) -> None:
    """Of a normal value, seen twice with independent errors: the regression on both, and how well it correlates."""
    moment = torch.tensor([[1, first * second], [first * second, 1]])
    best = torch.linalg.solve(moment, torch.tensor([first, second]))
    one, other, together = _weights(first, second)
    assert other / one == pytest.approx((best[1] / best[0]).item(), abs=1e-6)
    assert together**2 == pytest.approx((best @ torch.tensor([first, second])).item(), rel=1e-5)


def test_few_unseen_samples_are_too_few() -> None:
    records = scores(4, 1)
    few = Evidence(records, F.one_hot(records.labels, CLASSES).bool(), records, scores(7, 2))
    with pytest.raises(InvalidData, match="7 validation samples; at least 20"):
        Unseen().make(few)


def test_lowered_targets_are_an_explicit_formula() -> None:
    records = scores(6, 1)
    expected = (records.logits / 2 - 1.5 * F.one_hot(records.labels, CLASSES)).softmax(dim=1)
    torch.testing.assert_close(Lowered(shift=1.5, temperature=2.0).make(evidence(records)), expected)


def test_a_new_label_is_the_target() -> None:
    records = scores(6, 1)
    new_labels = (records.labels + 1) % CLASSES
    given = Evidence(records, F.one_hot(records.labels, CLASSES).bool(), new_labels=new_labels)
    assert torch.equal(Relabel().make(given), F.one_hot(new_labels, CLASSES).float())
    with pytest.raises(InvalidRequest, match=r"give new_labels=\[...\]"):
        Relabel().make(evidence(records))


def test_away_is_the_label_that_fits_best_beside_the_own_one() -> None:
    """Whatever the network says; its relative scores are asked only where no layer can be read."""
    records = evidence(scores(6, 1))
    own = records.forgotten.labels
    fits = torch.randn(6, CLASSES, generator=torch.Generator().manual_seed(3))
    fits[0, own[0]] = 99.0  # a wrong label that is believed all the same
    best = [
        max((k for k in range(CLASSES) if k != label), key=lambda k, i=i: fits[i, k].item())
        for i, label in enumerate(own)
    ]
    made = Away().make(replace(records, label_scores=fits))
    assert torch.equal(made, F.one_hot(torch.tensor(best), CLASSES).float())
    assert torch.equal(Away().make(records), pseudo_labels(records.forgotten.logits, records.removed, targets="soft"))


@pytest.mark.parametrize("name", ["unseen", "lowered", "away", "relabel"])
def test_rules_for_records_do_not_serve_classes(name: str) -> None:
    with pytest.raises(
        InvalidRequest, match=rf"'{name}' does not serve classes; allowed is 'soft', 'hard' or 'random'"
    ):
        find_targets(name, "classes")  # type: ignore[arg-type]
    assert find_targets(name, "records").name == name  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Unseen(spread=1.5), "spread=1.5; allowed is a share from 0 to 1"),
        (lambda: Unseen(stop_kl=0), "stop_kl=0; allowed is a number above 0"),
        (lambda: Lowered(shift=-1), "shift=-1; allowed is a number of at least 0"),
        (lambda: Lowered(temperature=0.5), "temperature=0.5; allowed is a number of at least 1"),
    ],
)
def test_bad_options_of_rules_are_refused(make, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        make()
