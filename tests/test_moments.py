"""Moments are `rows.T @ rows` however they are stored, added or collected."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from unsc.collect import collect_moments
from unsc.errors import InvalidData, UnsupportedModel
from unsc.moments import Moment, Moments

REPEATABLE = settings(max_examples=60, deadline=None, derandomize=True)


@st.composite
def row_blocks(draw: st.DrawFn) -> list[Tensor]:
    """Blocks of rows (groups, n, columns) of one layer, float64, few or many, some of them of low rank."""
    groups, columns = draw(st.integers(1, 3)), draw(st.integers(1, 8))
    torch.manual_seed(draw(st.integers(0, 1000)))
    sizes = draw(st.lists(st.integers(0, 6), min_size=1, max_size=4))
    rank = draw(st.integers(1, columns))
    basis = torch.randn(groups, rank, columns, dtype=torch.float64)
    return [torch.randn(groups, n, rank, dtype=torch.float64) @ basis for n in sizes]


def moment_of(*blocks: Tensor) -> Moment:
    moment = Moment(blocks[0].shape[0], blocks[0].shape[2])
    for block in blocks:
        moment.update(block)
    return moment


def explicit(*blocks: Tensor) -> Tensor:
    rows = torch.cat(blocks, dim=1)
    return torch.einsum("gni,gnj->gij", rows, rows)


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)


@REPEATABLE
@given(row_blocks())
def test_a_moment_is_rows_transposed_times_rows(blocks: list[Tensor]) -> None:
    """For any number of rows, in any number of blocks."""
    moment = moment_of(*blocks)
    close(moment.dense(), explicit(*blocks))
    assert torch.equal(moment.dense(), moment.dense().mT)
    assert moment.count == sum(block.shape[1] for block in blocks)


@pytest.mark.parametrize(("n", "thin"), [(3, True), (4, True), (5, False), (9, False)])
def test_the_smaller_side_is_kept(n: int, thin: bool) -> None:
    """With fewer rows than columns the factor is the rows themselves; from then on there is none."""
    rows = torch.randn(2, n, 5, generator=torch.Generator().manual_seed(0))
    factor = moment_of(rows[:, :2], rows[:, 2:]).factor()
    if thin:
        assert factor is not None
        assert torch.equal(factor, rows.double())
    else:
        assert factor is None
    close(moment_of(rows.double()).dense(), explicit(rows.double()))


def test_kept_rows_are_a_copy() -> None:
    """Rows that are overwritten after the update do not change the moment."""
    rows = torch.ones(1, 2, 5)
    moment = moment_of(rows)
    rows.zero_()
    assert torch.equal(moment.dense(), torch.full((1, 5, 5), 2.0, dtype=torch.float64))


def test_float32_rows_are_summed_in_float64() -> None:
    """Many small contributions are not lost beside a large one, as they would be in a float32 sum."""
    moment = Moment(1, 1).update(torch.full((1, 1, 1), 4096.0))
    for _ in range(64):
        moment.update(torch.full((1, 1, 1), 0.5))
    assert moment.dense().item() == 4096.0**2 + 64 * 0.25


def test_a_moment_without_rows_is_zero() -> None:
    """And it is the neutral element of addition."""
    empty, rows = Moment(2, 3), torch.randn(2, 7, 3, dtype=torch.float64)
    assert not empty.dense().any()
    assert not empty.trace().any()
    assert not empty.quadratic(torch.ones(2, 4, 3)).any()
    assert not empty.spectrum()[0].any()
    for n in (2, 7):
        close((empty + moment_of(rows[:, :n])).dense(), explicit(rows[:, :n]))
        close((moment_of(rows[:, :n]) + empty).dense(), explicit(rows[:, :n]))


@REPEATABLE
@given(row_blocks(), row_blocks(), st.data())
def test_addition_is_commutative_and_associative(
    first: list[Tensor], second: list[Tensor], data: st.DataObject
) -> None:
    """In every order and bracketing the sum is the moment of all rows, in whichever state the parts are."""
    groups, _, columns = first[0].shape
    second = [torch.randn(groups, block.shape[1], columns, dtype=torch.float64) for block in second]
    blocks = first + second
    owner = [data.draw(st.integers(0, 2)) for _ in blocks]
    empty = torch.zeros(groups, 0, columns, dtype=torch.float64)
    parts = [moment_of(empty, *(b for b, o in zip(blocks, owner, strict=True) if o == i)) for i in range(3)]
    before = [part.dense().clone() for part in parts]
    expected, count = explicit(*blocks), sum(block.shape[1] for block in blocks)
    for a, b, c in permutations(parts):
        for total in ((a + b) + c, a + (b + c)):
            close(total.dense(), expected)
            close(total.trace(), expected.diagonal(dim1=1, dim2=2).sum(dim=1))
            assert total.count == count
            assert count == 0 or (total.factor() is None) == (count >= columns)
    assert all(torch.equal(part.dense(), old) for part, old in zip(parts, before, strict=True))


@pytest.mark.parametrize("sizes", [(1, 1), (1, 9), (9, 1), (9, 9), (3, 3)])
def test_a_sum_is_independent_of_its_parts(sizes: tuple[int, int]) -> None:
    """Rows that are added to a sum go to the sum alone, and rows added to a part to that part alone."""
    torch.manual_seed(0)
    first, second, later = (torch.randn(1, n, 5, dtype=torch.float64) for n in (*sizes, 4))
    a, b = moment_of(first), moment_of(second)
    total = a + b
    total.update(later)
    close(a.dense(), explicit(first))
    close(b.dense(), explicit(second))
    a.update(later)
    close(total.dense(), explicit(first, second, later))
    assert total.count == sum(sizes) + 4


@REPEATABLE
@given(row_blocks())
def test_the_spectrum_rebuilds_the_moment(blocks: list[Tensor]) -> None:
    """Eigenvalues descend from at least 0, and `V diag(values) V.T` is the moment."""
    moment = moment_of(*blocks)
    values, vectors = moment.spectrum()
    close(vectors * values[:, None, :] @ vectors.mT, explicit(*blocks))
    assert (values >= 0).all()
    assert (values.diff(dim=1) <= 0).all()
    if moment.count:
        assert values.shape[1] == min(moment.count, moment.columns)


@REPEATABLE
@given(row_blocks())
def test_eigenvectors_with_energy_are_orthonormal(blocks: list[Tensor]) -> None:
    """On both sides, and vectors that were found from the rows are zero where the eigenvalue is."""
    moment = moment_of(*blocks)
    for values, vectors in zip(*moment.spectrum(), strict=True):
        basis = vectors[:, values > 0]
        torch.testing.assert_close(basis.T @ basis, torch.eye(basis.shape[1], dtype=torch.float64), atol=1e-3, rtol=0)
        if moment.factor() is not None:
            assert not vectors[:, values == 0].any()


@REPEATABLE
@given(row_blocks(), st.integers(1, 4))
def test_trace_and_quadratic_form_match_their_definitions(blocks: list[Tensor], outputs: int) -> None:
    """The trace is the rows' energy, and `tr(D M D.T)` the energy of what D makes of them."""
    moment = moment_of(*blocks)
    rows = torch.cat(blocks, dim=1)
    matrix = torch.randn(rows.shape[0], outputs, rows.shape[2], dtype=torch.float64)
    energies = [(d @ r.T).norm() ** 2 for d, r in zip(matrix, rows, strict=True)]
    close(moment.quadratic(matrix), torch.stack(energies))
    close(moment.trace(), torch.stack([r.norm() ** 2 for r in rows]))


class Small(nn.Module):
    """Two convolutions and a linear head, with ordinary functions in between."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 3, 3, padding=1)
        self.second = nn.Conv2d(3, 4, 2, stride=2, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.second(self.first(x).relu())).flatten(1))


def rows_by_hand(model: Small, x: Tensor) -> dict[str, Tensor]:
    """The rows (n, columns) of each layer, through the library function that unfolds patches."""

    def with_ones(rows: Tensor) -> Tensor:
        return torch.cat([rows, torch.ones(len(rows), 1, dtype=rows.dtype)], dim=1)

    hidden = model.first(x).relu()
    features = model.norm(model.second(hidden)).flatten(1)
    return {
        "first": with_ones(F.unfold(x, 3, padding=1).mT.flatten(0, 1)),
        "second": F.unfold(hidden, 2, stride=2).mT.flatten(0, 1),
        "head": with_ones(features),
    }


@pytest.fixture
def model() -> Small:
    torch.manual_seed(0)
    return Small().double().eval()


@pytest.fixture
def data() -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    labels = torch.tensor([0, 1, 2] * 2 + [1] * 15 + [2, 0])
    return TensorDataset(torch.randn(len(labels), 2, 4, 4, dtype=torch.float64, generator=generator), labels)


def collect(model: nn.Module, *data: TensorDataset, **options: int) -> Moments:
    loader = [batch for part in data for batch in DataLoader(part, batch_size=4)]
    return collect_moments(model, loader, num_classes=3, **options)


def same(ours: dict[str, Moment], theirs: dict[str, Moment]) -> None:
    assert ours.keys() == theirs.keys()
    for name, moment in ours.items():
        close(moment.dense(), theirs[name].dense())
        assert moment.count == theirs[name].count


@pytest.mark.parametrize("samples_per_class", [3, 256])
@pytest.mark.parametrize("chunk_bytes", [1, 256 << 20])
def test_collected_moments_are_those_of_each_class(
    model: Small, data: TensorDataset, samples_per_class: int, chunk_bytes: int
) -> None:
    """Class by class and layer by layer, the moment of the rows of the first samples of the class."""
    moments = collect(model, data, samples_per_class=samples_per_class, chunk_bytes=chunk_bytes)
    assert [layer.name for layer in moments.layers] == ["first", "second", "head"]
    assert moments.frozen.keys() == {"norm.weight", "norm.bias"}
    assert list(moments.by_class) == [0, 1, 2]
    x, y = data.tensors
    for label, of_class in moments.by_class.items():
        chosen = x[y == label][:samples_per_class]
        assert moments.samples[label] == len(chosen)
        with torch.no_grad():
            for name, rows in rows_by_hand(model, chosen).items():
                close(of_class[name].dense()[0], rows.T @ rows)
                assert of_class[name].count == len(rows)


def test_a_model_in_training_mode_is_collected_in_evaluation_mode(model: Small, data: TensorDataset) -> None:
    """Collecting neither uses nor updates a norm's batch statistics, and leaves the mode as it was."""
    expected = collect(model, data)
    state = {name: t.clone() for name, t in model.state_dict().items()}
    model.train()
    moments = collect(model, data)
    assert all(module.training for module in model.modules())
    assert all(torch.equal(t, state[name]) for name, t in model.state_dict().items())
    for label in range(3):
        same(moments.by_class[label], expected.by_class[label])


def test_moments_of_two_parts_add_up_to_the_whole(model: Small, data: TensorDataset) -> None:
    """Also where a class is in one part only, and in either order."""
    x, y = data.tensors
    halves = [collect(model, TensorDataset(x[part], y[part])) for part in (slice(0, 7), slice(7, None))]
    lone = [collect(model, TensorDataset(x[mask], y[mask])) for mask in (y == 2, y != 2)]
    whole = collect(model, data)
    for a, b in (halves, halves[::-1], lone, lone[::-1]):
        total = a + b
        assert list(total.by_class) == list(whole.by_class)
        assert total.samples == whole.samples
        assert (total.layers, total.frozen, total.num_classes) == (whole.layers, whole.frozen, whole.num_classes)
        for label in range(3):
            same(total.by_class[label], whole.by_class[label])


def test_pooled_moments_are_the_sum_over_classes(model: Small, data: TensorDataset) -> None:
    """Pooling some classes is collecting them as if they were one."""
    moments = collect(model, data)
    x, y = data.tensors
    for classes in ([1], [0, 2], [2, 0], [0, 1, 2]):
        chosen = x[torch.isin(y, torch.tensor(classes))]
        pooled = moments.pooled(iter(classes))
        with torch.no_grad():
            for name, rows in rows_by_hand(model, chosen).items():
                close(pooled[name].dense()[0], rows.T @ rows)
    assert all(moment.count == 0 for moment in moments.pooled([]).values())


def test_pooling_leaves_the_classes_as_they_were(model: Small, data: TensorDataset) -> None:
    """A pooled moment that is updated does not change the class it came from."""
    moments = collect(model, data)
    before = {name: moment.dense() for name, moment in moments.by_class[0].items()}
    for moment in moments.pooled([0]).values():
        moment.update(torch.ones(moment.groups, 3, moment.columns, dtype=torch.float64))
    assert all(torch.equal(moment.dense(), before[name]) for name, moment in moments.by_class[0].items())


def test_pooling_a_class_without_moments_names_it(model: Small, data: TensorDataset) -> None:
    """The message tells which classes are missing and which there are."""
    with pytest.raises(InvalidData, match=r"classes 5, 7; there are 0, 1, 2"):
        collect(model, data).pooled([1, 5, 7])


def test_moments_of_different_models_do_not_add(model: Small, data: TensorDataset) -> None:
    """A sum over unlike layers has no meaning."""
    other = nn.Sequential(nn.Flatten(), nn.Linear(32, 3)).double()
    with pytest.raises(InvalidData, match="different layers"):
        collect(model, data) + collect(other, data)


@pytest.mark.parametrize("label", [-1, 3])
def test_labels_out_of_range_are_named(model: Small, label: int) -> None:
    """Labels start at 0 and end before the number of classes."""
    data = TensorDataset(torch.randn(2, 2, 4, 4), torch.tensor([0, label]))
    with pytest.raises(InvalidData, match=rf"label {label};.*0 to 2"):
        collect(model, data)


def test_an_overflow_in_the_last_batch_is_refused(model: Small, data: TensorDataset) -> None:
    """Outputs are checked for every batch, not just for the one that the layers were checked on."""
    x, y = data.tensors
    x[-1] = torch.finfo(x.dtype).max
    with torch.no_grad():
        model.first.weight.fill_(1)
    fine = TensorDataset(x[:-1], y[:-1])
    collect(model, fine)
    with pytest.raises(UnsupportedModel, match="NaN or Inf"):
        collect(model, fine, TensorDataset(x[-1:], torch.tensor([1])))


def test_grouped_convolutions_have_a_moment_for_each_group() -> None:
    """Each group sees its own channels only."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(4, 6, 3, groups=2), nn.Flatten(), nn.Linear(18, 3)).double()
    x = torch.randn(5, 4, 5, dtype=torch.float64)
    moment = collect(model, TensorDataset(x, torch.ones(5, dtype=torch.int64))).by_class[1]["0"]
    for group, channels in enumerate(x.chunk(2, dim=1)):
        rows = F.unfold(channels[:, :, None], (1, 3)).mT.flatten(0, 1)
        rows = torch.cat([rows, torch.ones(len(rows), 1, dtype=rows.dtype)], dim=1)
        close(moment.dense()[group], rows.T @ rows)
