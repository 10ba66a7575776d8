"""After the steps layers go back and retained outputs are fitted again: predictions of retained samples come nearer to
the original's, and what is forgotten stays forgotten."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import unsc
from unsc import repair, run
from unsc.batches import Batch
from unsc.bench.datasets import Split
from unsc.logits import all_logits
from unsc.task import Task

FORGOTTEN = 3


def forgotten(model: nn.Module, points: TensorDataset, **options: Any) -> unsc.Forgotten:
    return unsc.forget(model, points, classes=[FORGOTTEN], **options)


def rows_and_logits() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(200, 8, generator=generator, dtype=torch.float64)
    return rows, rows @ torch.randn(8, 4, generator=generator, dtype=torch.float64)


def test_a_change_of_the_head_alone_is_undone() -> None:
    """Features as they were determine the rows: what was added to them is found, but for what all classes share."""
    rows, logits = rows_and_logits()
    change = torch.randn(4, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = repair.fitted(rows, logits, logits + rows @ change.T, 1.0, constant=True)
    assert found is not None
    after = logits + rows @ (change + found[0]).T + found[1]
    torch.testing.assert_close(after.softmax(dim=1), logits.softmax(dim=1), rtol=0, atol=1e-3)


def test_noise_is_not_fitted() -> None:
    """What features do not explain makes samples that are left out no better, so nothing is done."""
    rows, logits = rows_and_logits()
    noise = torch.randn(logits.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    noise = noise - noise.mean(dim=0)
    assert repair.fitted(rows, logits, logits + 0.3 * noise, 1.0, constant=False) is None


@pytest.mark.parametrize(
    ("back", "share", "untouched"), [(True, 0.5, 0), (False, 0.8, 2)], ids=["with a way back", "the fit alone"]
)
def test_retained_predictions_come_nearer(
    model: nn.Module, points: TensorDataset, monkeypatch: pytest.MonkeyPatch, back: bool, share: float, untouched: int
) -> None:
    """On samples that nothing was fitted to; what is forgotten holds no more than before.

    A fit changes the head alone: other layers are the same, bit for bit.
    """
    if not back:
        monkeypatch.setattr(repair, "go_back", lambda *_: None)
    repaired = forgotten(model, points)
    monkeypatch.setattr(run, "repair", lambda *_: None)
    plain = forgotten(model, points)
    assert repaired.metrics.stopped == plain.metrics.stopped == "forgotten"
    assert repaired.metrics.retained_kl < share * plain.metrics.retained_kl
    assert repaired.metrics.forget_mass < 1.01 * plain.metrics.forget_mass
    both = zip(repaired.model.parameters(), plain.model.parameters(), strict=True)
    assert [torch.equal(a, b) for a, b in both] == [i < untouched for i in range(4)]


def test_outputs_that_stay_keep_their_level(digits: Split, digits_model: nn.Module) -> None:
    """Predictions would not see it if all of them were higher; whoever reads logits would."""
    retained = digits.test.tensors[0][digits.test.tensors[1] != FORGOTTEN]
    kept = [c for c in range(10) if c != FORGOTTEN]
    repaired = forgotten(digits_model, digits.train).model
    with torch.no_grad():
        before, after = (network(retained)[:, kept] for network in (digits_model, repaired))
    assert abs(after.mean() - before.mean()) < 0.02 * before.std()


def whole_way(task: Task, working: nn.Module, *_: object) -> None:
    working.load_state_dict(task.original.state_dict())


def all_that_stays_lower(rows: Tensor, wanted: Tensor, *_: object, **__: object) -> tuple[Tensor, Tensor]:
    kept = wanted.shape[1]
    return torch.zeros(kept, rows.shape[1]), torch.full((kept,), -100.0)


@pytest.mark.parametrize(
    ("part", "ruinous", "left_out"),
    [("go_back", whole_way, (repair, "go_back")), ("fitted", all_that_stays_lower, (run, "repair"))],
)
def test_what_would_bring_the_class_back_is_not_done(
    model: nn.Module,
    points: TensorDataset,
    monkeypatch: pytest.MonkeyPatch,
    part: str,
    ruinous: Any,
    left_out: tuple[Any, str],
) -> None:
    """Neither of a way back nor of a fit is anything left: layers are where they are without it, bit for bit."""
    monkeypatch.setattr(repair, part, ruinous)
    with_it = forgotten(model, points)
    monkeypatch.setattr(*left_out, lambda *_: None)
    without = forgotten(model, points)
    assert with_it.ok
    for a, b in zip(with_it.model.parameters(), without.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_original_is_not_asked_twice(
    model: nn.Module, points: TensorDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it said of retained samples when the curvature was made is what the rows are fitted to."""
    found: list[tuple[Tensor, Tensor]] = []
    said = repair._said

    def kept(task: Task, count: int) -> tuple[list[Batch], Tensor]:
        batches, logits = said(task, count)
        found.append((torch.cat([all_logits(task.original, batch) for batch in batches]), logits))
        return batches, logits

    monkeypatch.setattr(repair, "_said", kept)
    monkeypatch.setattr(repair, "shared_logits", lambda *_: pytest.fail("these samples are known"))
    assert forgotten(model, points).ok
    torch.testing.assert_close(*found[0])


def test_records_and_the_papers_step_are_left_alone(
    model: nn.Module, points: TensorDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repair, "fitted", lambda *_, **__: pytest.fail("nothing is to be fitted"))
    forgotten(model, points, step="paper", energy=0.7, merge_energy=0.7, max_kl=10.0)
    unsc.forget(model, points, indices=[1, 70], targets="soft", least_gain=0.0, max_kl=10.0)
