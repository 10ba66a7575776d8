"""Collected moments are those of each class, however the samples come."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from unsc.collect import collect_moments
from unsc.errors import InvalidData, UnsupportedModel
from unsc.moments import Moment, Moments


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)


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


def collect(
    model: nn.Module, *data: TensorDataset, samples_per_class: int = 256, chunk_bytes: int = 256 << 20
) -> Moments:
    loader = [batch for part in data for batch in DataLoader(part, batch_size=4)]
    return collect_moments(model, loader, num_classes=3, samples_per_class=samples_per_class, chunk_bytes=chunk_bytes)


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
    ours, theirs = collect(model, data), collect(other, data)
    with pytest.raises(InvalidData, match="different layers"):
        _ = ours + theirs


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
