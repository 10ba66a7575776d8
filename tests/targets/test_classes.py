"""Pseudo-labels: where forgotten samples go."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from unsc.errors import InvalidRequest
from unsc.request import Request
from unsc.targets import pseudo_labels

REPEATABLE = settings(max_examples=60, deadline=None, derandomize=True)


@st.composite
def scores(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Logits (n, classes) and a mask that leaves each sample at least one class."""
    n, classes = draw(st.integers(1, 6)), draw(st.integers(2, 7))
    torch.manual_seed(draw(st.integers(0, 1000)))
    removed = torch.rand(n, classes) < 0.5
    removed[torch.arange(n), torch.randint(classes, (n,))] = False
    return 5 * torch.randn(n, classes), removed


@REPEATABLE
@given(scores())
def test_soft_labels_keep_the_relative_scores_of_what_is_left(given_: tuple[Tensor, Tensor]) -> None:
    """They sum to 1, give removed classes exactly nothing, and are Bayes' rule on the network's probabilities."""
    logits, removed = given_
    labels = pseudo_labels(logits, removed)
    assert not labels[removed].any()
    p = logits.double().exp() * ~removed
    torch.testing.assert_close(labels.double(), p / p.sum(dim=1, keepdim=True), atol=1e-6, rtol=1e-5)


@REPEATABLE
@given(scores())
def test_hard_labels_are_the_best_class_that_is_left(given_: tuple[Tensor, Tensor]) -> None:
    """One-hot, found by a plain search."""
    logits, removed = given_
    labels = pseudo_labels(logits, removed, targets="hard")
    for row, scores_, gone in zip(labels, logits.tolist(), removed.tolist(), strict=True):
        best = max((s, k) for k, (s, g) in enumerate(zip(scores_, gone, strict=True)) if not g)[1]
        assert row.tolist() == [float(k == best) for k in range(len(row))]


@pytest.mark.parametrize(("scores_", "label", "goes_to"), [([3.0, 1.0, 2.0], 0, 2), ([3.0, 1.0, 2.0], 1, 0)])
def test_records_lose_their_own_class(scores_: list[float], label: int, goes_to: int) -> None:
    """One that was right goes to its second-best class; one that was wrong to the class it was mistaken for."""
    removed = Request(3).removed(torch.tensor([label]))
    assert pseudo_labels(torch.tensor([scores_]), removed, targets="hard").argmax().item() == goes_to


def test_forgotten_classes_are_removed_for_every_sample() -> None:
    assert Request(4, (1, 3)).removed(torch.tensor([1, 2])).tolist() == [[False, True, False, True]] * 2
    assert Request(4).removed(torch.tensor([1, 2])).int().tolist() == [[0, 1, 0, 0], [0, 0, 1, 0]]


def test_what_cannot_be_labelled_is_refused() -> None:
    """A sample with no class left, and a rule that does not exist."""
    with pytest.raises(InvalidRequest, match="retain at least one class"):
        pseudo_labels(torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool))
    with pytest.raises(InvalidRequest, match=r"'nearest'.*'soft', 'hard', 'random', "):
        pseudo_labels(torch.zeros(1, 2), torch.zeros(1, 2, dtype=torch.bool), targets="nearest")  # type: ignore[arg-type]


@REPEATABLE
@given(scores())
def test_random_labels_are_any_class_that_is_left(given_: tuple[Tensor, Tensor]) -> None:
    """One-hot, never removed, the same every time, and whatever the network says."""
    logits, removed = given_
    labels = pseudo_labels(logits, removed, targets="random")
    assert labels.sum(dim=1).tolist() == [1.0] * len(labels) and not labels[removed].any()
    assert torch.equal(labels, pseudo_labels(-logits, removed, targets="random"))


def test_random_labels_are_drawn_alike() -> None:
    """Two classes of four are left: each gets half of 4,000 samples, within five standard deviations."""
    removed = torch.tensor([False, True, False, True]).expand(4000, 4)
    counts = pseudo_labels(torch.zeros(4000, 4), removed, targets="random").sum(dim=0)
    assert counts[1] == counts[3] == 0 and abs(counts[0] - 2000) < 5 * 1000**0.5
