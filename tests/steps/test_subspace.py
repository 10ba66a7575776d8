"""The paper's bases and null space, against singular value decompositions of explicit patch matrices."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from unsc.collect import collect_moments
from unsc.errors import EmptyNullSpace, InvalidData, InvalidRequest
from unsc.moments import Moment, Moments
from unsc.steps.subspace import ClassBases, NullSpace, class_bases, leading, null_space
from unsc.storage.files import save_tensors

REPEATABLE = settings(max_examples=60, deadline=None, derandomize=True)
CLASSES = 4


class ConvNet(nn.Module):
    """Padding, stride and groups, then a linear layer; two of the layers have no bias."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1, stride=2)
        self.grouped = nn.Conv2d(4, 6, (2, 3), padding=(0, 1), groups=2, bias=False)
        self.last = nn.Linear(6 * 3 * 4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x))
        x = torch.tanh(self.grouped(x))
        return self.last(x.flatten(1))


def conv_net() -> ConvNet:
    torch.manual_seed(0)
    return ConvNet().double()


def images() -> tuple[Tensor, Tensor]:
    """Float64 images (n, 2, 8, 8) of a few directions each, so that classes leave directions free."""
    g = torch.Generator().manual_seed(1)
    labels = torch.arange(40) % CLASSES
    patterns = torch.randn(CLASSES, 3, 2, 8, 8, generator=g, dtype=torch.float64)
    x = torch.einsum("nk,nkchw->nchw", torch.randn(40, 3, generator=g, dtype=torch.float64), patterns[labels])
    return x + 0.05 * torch.randn(x.shape, generator=g, dtype=torch.float64), labels


def patches(model: ConvNet, x: Tensor) -> dict[str, list[Tensor]]:
    """Each layer's rows (n, columns) of each group, built with unfold and concatenation alone."""

    def unfolded(x: Tensor, kernel: tuple[int, int], padding: tuple[int, int], stride: int) -> Tensor:
        return F.unfold(x, kernel, padding=padding, stride=stride).transpose(1, 2).flatten(0, 1)

    def with_one(rows: Tensor) -> Tensor:
        return torch.cat([rows, torch.ones(len(rows), 1, dtype=rows.dtype)], dim=1)

    with torch.no_grad():
        hidden = torch.tanh(model.first(x))
        flat = torch.tanh(model.grouped(hidden)).flatten(1)
    return {
        "first": [with_one(unfolded(x, (3, 3), (1, 1), 2))],
        "grouped": [unfolded(part, (2, 3), (0, 1), 1) for part in (hidden[:, :2], hidden[:, 2:])],
        "last": [with_one(flat)],
    }


def svd_basis(columns: Tensor, energy: float) -> Tensor:
    """The first left singular vectors of (columns, n) that hold `energy` of the squared singular values."""
    u, s, _ = torch.linalg.svd(columns, full_matrices=False)
    for k in range(1, len(s) + 1):
        if s[:k].square().sum() >= energy * s.square().sum():
            assert k == len(s) or s[k - 1] - s[k] > 1e-4  # else which of two equal directions is kept is arbitrary
            return u[:, :k]
    raise AssertionError("unreachable")


@pytest.mark.parametrize(
    ("retain", "energy", "merge_energy"),
    [((0, 1, 2), 0.97, 0.99), ((1, 3), 0.97, 0.99), ((2,), 0.97, 0.99), ((0, 1, 2), 0.8, 0.9), ((1, 3), 0.9, 0.95)],
)
def test_the_paper_step_is_two_singular_value_decompositions(
    retain: tuple[int, ...], energy: float, merge_energy: float
) -> None:
    """Same ranks and projectors as the SVD of the patch matrix of each class, joined, and decomposed again."""
    model, (x, labels) = conv_net(), images()
    moments = collect_moments(model, [(x, labels)], num_classes=CLASSES)
    ours = null_space(moments, retain=retain, energy=energy, merge_energy=merge_energy)
    rows = {k: patches(model, x[labels == k]) for k in range(CLASSES)}
    assert set(ours.bases) == set(rows[0])
    for name, basis in ours.bases.items():
        for group in range(len(basis)):
            of_class = [svd_basis(rows[k][name][group].T, energy) for k in retain]
            expected = svd_basis(torch.cat(of_class, dim=1), merge_energy)
            assert ours.ranks[name][group] == expected.shape[1]
            projector = basis[group].double() @ basis[group].double().T
            torch.testing.assert_close(projector, expected @ expected.T, atol=1e-5, rtol=0)
    sizes = {"first": 19, "grouped": 2 * 12, "last": 73}
    assert ours.free() == {name: sizes[name] - sum(ours.ranks[name]) for name in sizes}


def moment_with(*spectra: list[float]) -> Moment:
    """A moment whose groups have these eigenvalues, in a rotated basis."""
    g = torch.Generator().manual_seed(0)
    moment = Moment(len(spectra), len(spectra[0]))
    turned = [
        torch.linalg.qr(torch.randn(len(s), len(s), generator=g, dtype=torch.float64))[0] * torch.tensor(s).sqrt()
        for s in spectra
    ]
    return moment.update(torch.stack([t.T for t in turned]))


@pytest.mark.parametrize(
    ("energy", "rank"), [(0.1, 1), (0.499, 1), (0.501, 2), (0.74, 2), (0.76, 3), (0.874, 3), (0.876, 4), (1.0, 4)]
)
def test_the_component_that_crosses_the_threshold_is_kept(energy: float, rank: int) -> None:
    """Eigenvalues 4, 2, 1, 1, 0 hold 0.5, 0.75, 0.875 and 1 of the energy; the empty direction is never kept."""
    basis, ranks = leading(moment_with([4.0, 2.0, 1.0, 1.0, 0.0]), energy)
    assert ranks.tolist() == [rank]
    assert basis.shape == (1, 5, rank)


def test_groups_have_their_own_ranks() -> None:
    """A group of lower rank is filled up with zero vectors; one without any energy has rank 0."""
    basis, ranks = leading(moment_with([4.0, 4.0, 4.0], [9.0, 0.0, 0.0], [0.0, 0.0, 0.0]), 0.9)
    assert ranks.tolist() == [3, 1, 0]
    gram = basis.mT @ basis
    for group, rank in enumerate(ranks.tolist()):
        expected = torch.diag((torch.arange(3) < rank).double())
        torch.testing.assert_close(gram[group], expected, atol=1e-12, rtol=0)


def random_moments(seed: int, *, groups: int = 2, columns: int = 6, rows: int = 4, classes: int = 3) -> Moments:
    g = torch.Generator().manual_seed(seed)
    by_class = {
        k: {"a": Moment(groups, columns).update(torch.randn(groups, rows, columns, generator=g))}
        for k in range(classes)
    }
    return Moments((), {}, by_class, dict.fromkeys(range(classes), rows), classes)


@REPEATABLE
@given(st.integers(0, 1000), st.floats(0.05, 1), st.floats(0.05, 1))
def test_project_is_an_orthogonal_projection(seed: int, energy: float, merge_energy: float) -> None:
    """It is idempotent, symmetric, annihilates the basis, and has the rank that is stated."""
    space = null_space(random_moments(seed), retain=[0, 1], energy=energy, merge_energy=merge_energy).to(torch.float64)
    identity = torch.eye(6, dtype=torch.float64).expand(2, 6, 6)
    p = space.project("a", identity)
    torch.testing.assert_close(space.project("a", p), p, atol=1e-6, rtol=0)
    torch.testing.assert_close(p, p.mT, atol=1e-12, rtol=0)
    torch.testing.assert_close(p @ space.bases["a"], torch.zeros_like(space.bases["a"]), atol=1e-6, rtol=0)
    assert torch.linalg.matrix_rank(p, atol=1e-3).tolist() == [6 - r for r in space.ranks["a"]]
    assert space.free() == {"a": 12 - sum(space.ranks["a"])}


def test_rows_of_a_full_energy_basis_are_not_seen() -> None:
    """With all energy kept, no displacement in the null space changes what any retained row gives."""
    moments = random_moments(3, columns=20)
    space = null_space(moments, retain=[0, 2], energy=1.0, merge_energy=1.0)
    moved = space.project("a", torch.randn(2, 5, 20, generator=torch.Generator().manual_seed(0)))
    for k, seen in ((0, False), (1, True), (2, False)):
        rows = moments.by_class[k]["a"].factor()
        assert rows is not None
        assert ((rows.float() @ moved.mT).abs().max() > 0.1) == seen


def test_a_left_out_class_does_not_matter() -> None:
    """The null space of classes 0 and 2 is the same whatever class 1 looks like, and no order matters."""
    first, second = random_moments(0), random_moments(0)
    second.by_class[1] = random_moments(99).by_class[1]
    spaces = [class_bases(m).null_space(r) for m, r in ((first, (0, 2)), (second, (2, 0, 2)))]
    assert torch.equal(spaces[0].bases["a"], spaces[1].bases["a"])
    assert spaces[0].retain == spaces[1].retain == (0, 2)
    assert not torch.equal(
        null_space(first, retain=[0, 1], energy=0.8).project("a", torch.eye(6).expand(2, 6, 6)),
        null_space(second, retain=[0, 1], energy=0.8).project("a", torch.eye(6).expand(2, 6, 6)),
    )


@pytest.mark.parametrize("retain", [[], [1, 7]])
def test_unknown_or_no_retained_classes_are_refused(retain: list[int]) -> None:
    """The message names the class, and those that there are."""
    with pytest.raises(InvalidRequest, match=r"(7|none given).*0, 1, 2"):
        null_space(random_moments(0), retain=retain)


@pytest.mark.parametrize("option", ["energy", "merge_energy"])
@pytest.mark.parametrize("value", [0.0, -0.5, 1.01, float("nan")])
def test_an_impossible_energy_is_refused(option: str, value: float) -> None:
    """By name, with its value and what is allowed; also for one layer alone."""
    for given_ in (value, {"a": value}):
        with pytest.raises(InvalidRequest, match=rf"{option}={value} .*above 0 and at most 1"):
            null_space(random_moments(0), retain=[0], **{option: given_})


@pytest.mark.parametrize("option", ["energy", "merge_energy"])
def test_energies_by_layer_must_name_every_layer(option: str) -> None:
    """The missing layer is named, and those that are given."""
    with pytest.raises(InvalidRequest, match=rf"{option}.*\ba\b.*other"):
        null_space(random_moments(0), retain=[0], **{option: {"other": 0.9}})


def test_energies_by_layer_are_used() -> None:
    """One layer at 0.2, the other at 1."""
    g = torch.Generator().manual_seed(0)
    rows = torch.randn(1, 9, 5, generator=g)
    moments = Moments((), {}, {0: {n: Moment(1, 5).update(rows) for n in "ab"}}, {0: 9}, 2)
    space = null_space(moments, retain=[0], energy={"a": 0.01, "b": 1.0})
    assert space.ranks == {"a": (1,), "b": (5,)}


def test_a_null_space_is_the_same_after_a_file(tmp_path: Path) -> None:
    """Bases, ranks, classes and settings."""
    space = null_space(random_moments(0), retain=[0, 2], energy={"a": 0.8}, merge_energy=0.9)
    space.save(tmp_path / "space.safetensors")
    back = NullSpace.load(tmp_path / "space.safetensors")
    assert torch.equal(back.bases["a"], space.bases["a"])
    assert (back.ranks, back.retain, back.settings) == (space.ranks, space.retain, space.settings)
    assert space.settings == {"energy": {"a": 0.8}, "merge_energy": 0.9}


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.safetensors"
    save_tensors(path, {"a": torch.zeros(2)}, {"kind": "retained_metric"})
    with pytest.raises(InvalidData, match=r"other\.safetensors.*retained_metric, not a null space"):
        NullSpace.load(path)


def test_to_moves_bases_and_keeps_the_rest() -> None:
    space = null_space(random_moments(0), retain=[0])
    moved = space.to("cpu", torch.float64)
    assert moved.bases["a"].dtype == torch.float64
    assert space.bases["a"].dtype == torch.float32
    assert torch.equal(moved.bases["a"].float(), space.bases["a"])
    assert (moved.ranks, moved.retain) == (space.ranks, space.retain)


def test_an_empty_null_space_is_named() -> None:
    """Only when every layer is full; the message names the layers and the way out."""
    full, some = torch.eye(3)[None], torch.eye(3)[None, :, :2]
    NullSpace({"a": full, "b": some}, {"a": (3,), "b": (2,)}, (0,)).check_not_empty()
    with pytest.raises(EmptyNullSpace, match=r"one, two.*step=\"budgeted\""):
        NullSpace({"one": full, "two": full}, {"one": (3,), "two": (3,)}, (0,)).check_not_empty()


def test_bases_serve_several_requests() -> None:
    """Class bases taken once give the same null spaces as a fresh start for each request."""
    moments = random_moments(5)
    bases = class_bases(moments, energy=0.9)
    assert isinstance(bases, ClassBases)
    for retain in ([0], [1, 2], [0, 1, 2]):
        fresh = null_space(random_moments(5), retain=retain, energy=0.9)
        assert torch.equal(bases.null_space(retain).bases["a"], fresh.bases["a"])
