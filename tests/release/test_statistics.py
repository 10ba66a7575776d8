"""Statistics of a store: sums that lose a deleted sample's share, as if it had never been there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from blobs import learned, network
from tiny_release import DATA, IDS, write_data, write_weights
from torch import nn

from unsc.batches import Batch
from unsc.datasets import as_source
from unsc.errors import InvalidData
from unsc.layers import find_layers
from unsc.release.plan import Plan, plan_for
from unsc.release.preparing import Preparation, plan_store
from unsc.release.shares import Member, Sharing, Sums, batch_size_for
from unsc.release.statistics import Statistics
from unsc.steps.together import Together

MEMBERS = tuple(Member(i, id_, int(DATA.tensors[1][i])) for i, id_ in enumerate(IDS))
PLAN = plan_for((20,) * 4, "salt", fit=40, check=40, sensitivity=20, rows_per_column=16)


def sharing(model: nn.Module, plan: Plan = PLAN, batch_size: int = 64) -> Sharing:
    return Sharing(model, find_layers(model).layers, plan, 1.5, batch_size)


def sums_of(model: nn.Module, members: tuple[Member, ...], **more: int) -> Sums:
    return sharing(model, **more).of(as_source(DATA, model), members)  # type: ignore[arg-type]


def statistics_of(sums: Sums) -> Statistics:
    return Statistics.of(sums, PLAN, 64, 1.5, Together.alone(2))


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return learned(network(), DATA)


def test_what_is_taken_out_was_never_there(model: nn.Module) -> None:
    """Sums of all less the share of some are the sums of the others, whatever else is in a batch with them."""
    deleted = MEMBERS[3:70:3]
    rest = tuple(member for member in MEMBERS if member not in deleted)
    left = statistics_of(sums_of(model, MEMBERS)).without(sums_of(model, deleted))
    fresh = statistics_of(sums_of(model, rest))
    assert left.samples == fresh.samples
    for name, moment in fresh.fit.items():
        torch.testing.assert_close(left.fit[name], moment, rtol=1e-4, atol=1e-4 * moment.abs().max().item())
        torch.testing.assert_close(left.check[name], fresh.check[name], rtol=1e-4, atol=1e-2)
        assert left.fisher[name] == pytest.approx(fresh.fisher[name], rel=1e-3)


def test_samples_one_by_one_give_the_same(model: nn.Module) -> None:
    together, alone = sums_of(model, MEMBERS), sums_of(model, MEMBERS, batch_size=1)
    assert together.samples == alone.samples
    for name, moment in together.fit.items():
        torch.testing.assert_close(moment.dense(), alone.fit[name].dense(), rtol=1e-4, atol=1e-4)


class Entangled(nn.Module):
    """What it says of a sample depends on the others in the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x - x.mean(dim=0))


def test_batches_are_taken_only_where_samples_have_nothing_to_do_with_each_other(model: nn.Module) -> None:
    points, labels = DATA.tensors
    few = [(IDS[i], Batch(points[i : i + 1], labels[i : i + 1])) for i in range(4)]
    for one, size in ((model, 64), (Entangled(), 1)):
        assert batch_size_for(one, find_layers(one).layers, PLAN, few) == size


def test_a_samples_part_depends_on_nothing_but_itself() -> None:
    """So that it can be found again when all the others are gone; and other salts draw others."""
    roles = [PLAN.role(m.id, m.label) for m in MEMBERS]
    assert roles == [PLAN.role(m.id, m.label) for m in reversed(MEMBERS)][::-1]
    assert {*roles} == {"fit", "check"} or {*roles} == {"fit", "check", "none"}
    other = replace(PLAN, salt="other")
    assert roles != [other.role(m.id, m.label) for m in MEMBERS]


def test_drawn_rows_have_the_moment_of_all() -> None:
    """On average over salts, as an explicit sum over all rows has it."""
    conv = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten())
    (layer,) = find_layers(conv).layers
    image = torch.randn(1, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    patches = nn.functional.unfold(image, 3)[0].T
    rows = torch.cat([patches, torch.ones(len(patches), 1)], dim=1).double()
    total = torch.zeros(10, 10, dtype=torch.float64)
    repeats = 600
    for i in range(repeats):
        plan = Plan(f"salt{i}", (1.0,), (0.0,), 1.0, (100, 0), 16)
        sums = Sums.empty((layer,)).fit
        Sharing(conv, (layer,), plan, 1.0, 1).add_rows(sums, Batch(image, torch.zeros(1).long()), ("a",), "fit")
        total += sums[layer.name].dense()[0] / repeats
    wanted = rows.T @ rows
    assert (total - wanted).norm() < 0.15 * wanted.norm()


def test_too_few_left_is_a_message(model: nn.Module) -> None:
    whole = sums_of(model, MEMBERS)
    with pytest.raises(InvalidData, match="Prepare a new store"):
        statistics_of(whole).without(whole)


def test_other_layers_are_a_message(model: nn.Module) -> None:
    other = nn.Sequential(nn.Linear(5, 4))
    with pytest.raises(InvalidData, match="not those that the store has statistics of"):
        statistics_of(sums_of(model, MEMBERS)).curvature(find_layers(other).layers, {})


@pytest.fixture
def planned(tmp_path: Path) -> Preparation:
    weights, data = write_weights(tmp_path / "w.safetensors"), write_data(tmp_path / "data.npz")
    return plan_store("blobs:network", weights=weights, data=str(data), canaries=6, salt="salt")


def test_a_store_is_what_the_data_is(planned: Preparation, tmp_path: Path) -> None:
    store = planned.make(tmp_path / "store")
    manifest = store.manifest
    assert manifest.counts == (20,) * 4 and tuple(manifest.samples) == IDS
    assert manifest.copies(["s0"]) == ("s1",) and manifest.columns == {
        "user": {"ann": ("s5", "s25", "s45"), "bob": ("s6",)}
    }
    assert sorted(store.canaries.batch.labels.tolist()) == [0, 0, 1, 1, 2, 3]
    for id_, point in zip(store.canaries.ids, store.canaries.batch.inputs, strict=True):
        assert torch.equal(point, DATA.tensors[0][IDS.index(id_)])
    assert len(store.markers) == 0
    excess = store.statistics.together.excess
    assert len(excess) == 2 and (excess > 0).all() and torch.isfinite(excess).all()


def test_the_estimate_is_near(planned: Preparation, tmp_path: Path) -> None:
    estimate = planned.estimate()
    store = planned.make(tmp_path / "store")
    size = sum(path.stat().st_size for path in store.folder.iterdir())
    assert 0.5 < size / estimate.bytes < 2 and estimate.seconds > 0 and estimate.samples <= 80
    sizes = [replace(planned, canaries=count).estimate().bytes for count in (len(planned.data), 10**9)]
    assert sizes[0] == sizes[1]


def test_few_samples_of_many_classes_tell_how_layers_add_up(tmp_path: Path) -> None:
    """A class has few samples to check where classes are many; what a request will cost is measured all the same."""
    few = [i for i in range(len(DATA)) if i % 20 < 6]
    weights, data = write_weights(tmp_path / "w.safetensors"), write_data(tmp_path / "data.npz", few)
    store = plan_store("blobs:network", weights=weights, data=str(data), salt="salt").make(tmp_path / "store")
    found = store.statistics.together
    between = found.correlations - torch.eye(len(found.excess), dtype=torch.float64)
    assert between.abs().max() > 0.01 and (found.excess != 1).all()
