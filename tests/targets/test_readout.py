"""The read-out: fair layers are told from those that memorised, and samples are judged without having been fitted."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.targets import Scores, read_out, views_of
from unsc.targets.readout import Ridge, Views, coarse

CLASSES = 3


def views(n: int, seed: int, *, memorised: bool) -> Views:
    """Two layers: one shows the label with noise; the other, of samples that were trained on, the label itself."""
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (n,), generator=g)
    shown = F.one_hot(labels, CLASSES) + torch.randn(n, CLASSES, generator=g)
    deep = F.one_hot(labels, CLASSES).float() if memorised else shown
    return Views(Scores(deep, labels), {"middle": shown, "deep": deep + 0.01 * torch.randn(n, CLASSES, generator=g)})


def test_the_layer_that_memorised_is_not_read() -> None:
    """Though it agrees better with the network on unseen samples."""
    records, trained = (views(n, seed, memorised=True) for n, seed in ((50, 1), (300, 2)))
    unseen = views(300, 3, memorised=False)
    found = read_out(records, trained, unseen)
    assert found is not None
    assert found.layer == "middle"
    assert 0.45 < found.tells < 0.55
    only_deep = [Views(v.scores, {"deep": v.features["deep"]}) for v in (records, trained, unseen)]
    assert read_out(*only_deep) is None


class Sideways(nn.Module):
    """Layers that see samples, and some that see positions by themselves: with one sample there seem to be one more."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.ModuleList(nn.Linear(1, 4) for _ in range(8))
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(8))

    def forward(self, x: Tensor) -> Tensor:
        where = torch.linspace(-1, 1, 5)[None, :, None]
        for place, layer in zip(self.places, self.layers, strict=True):
            x = x + layer(x + place(where)).relu()
        return x.mean(dim=1)


def test_the_same_layers_are_read_for_one_record_as_for_many_samples() -> None:
    """Of one sample, what the positions are given seems to be its own."""
    torch.manual_seed(0)
    model = Sideways()
    record, others = (Batch(torch.randn(n, 5, 4), torch.arange(n) % 4) for n in (1, 40))
    many = views_of(model, [others])
    assert set(views_of(model, [record]).features) != set(many.features), "or there is nothing to see here"
    assert list(views_of(model, [record], like=many).features) == list(many.features)
    read_out(views_of(model, [record]), many, many)  # layers that only some views have are left out


def test_the_read_out_says_of_records_what_the_network_would() -> None:
    """Where a network is a linear map of a layer that it did not learn by heart, and adds what it memorised to it."""
    g = torch.Generator().manual_seed(0)
    linear = torch.randn(4, CLASSES, generator=g)

    def seen(n: int, by_heart: float) -> Views:
        shown, labels = torch.randn(n, 4, generator=g), torch.randint(CLASSES, (n,), generator=g)
        return Views(Scores(shown @ linear + by_heart * F.one_hot(labels, CLASSES), labels), {"middle": shown})

    records, trained, unseen = seen(30, 5.0), seen(200, 5.0), seen(2000, 0.0)
    found = read_out(records, trained, unseen)
    assert found is not None
    expected = records.scores.logits - 5.0 * F.one_hot(records.scores.labels, CLASSES)
    assert torch.corrcoef(torch.stack([found.forgotten.logits.flatten(), expected.flatten()]))[0, 1] > 0.999


@pytest.mark.parametrize(
    ("shape", "channels", "values"),
    [
        ((2, 8, 16, 16), -3, 128),
        ((2, 256, 8, 8), -3, 1024),
        ((2, 2048, 7, 7), -3, 2048),
        ((2, 5, 12), -1, 12),
        ((2, 5, 12), -2, 5),
        ((2, 4, 4, 12), -1, 12),
        ((2, 9), -1, 9),
    ],
)
def test_inputs_are_pooled_to_few_values(shape: tuple[int, ...], channels: int, values: int) -> None:
    assert coarse(torch.randn(shape), channels=channels).shape == (2, values)
    torch.testing.assert_close(coarse(torch.ones(shape), channels=channels), torch.ones(2, values))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 4, 3, padding=1), nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.conv(x).relu().mean(dim=(2, 3)))


def test_views_hold_what_layers_are_given() -> None:
    """In batches as in one, with no hook left behind."""
    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(10, 1, 4, 4)
    labels = torch.zeros(10, dtype=torch.long)
    seen = views_of(model, [Batch(x[:7], labels[:7]), Batch(x[7:], labels[7:])])
    with torch.no_grad():
        torch.testing.assert_close(seen.scores.logits, model(x))
        torch.testing.assert_close(seen.features["head"], model.conv(x).relu().mean(dim=(2, 3)))
    torch.testing.assert_close(seen.features["conv"], x.flatten(1))
    assert not any(m._forward_hooks for m in model.modules())


@pytest.mark.parametrize("n", [20, 40, 200])
def test_the_ridge_regression_solves_its_normal_equations(n: int) -> None:
    """Whichever of the two matrices it is solved by: with fewer samples than values, or more."""
    features, wanted = regressed(n)
    ridge, _ = Ridge.fitted(features, wanted)
    rows = ((features - ridge.mean) / ridge.scale).double()
    left = (rows.T @ rows + n * torch.eye(40)) @ ridge.weights.double()
    torch.testing.assert_close(left, rows.T @ (wanted - wanted.mean(dim=0)).double(), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("n", [20, 40, 200])
def test_predictions_without_a_sample_are_those_of_a_fit_without_it(n: int) -> None:
    """Solved anew for some samples, with the level as a column that is not shrunk, on the scale of all samples."""
    features, wanted = regressed(n)
    ridge, left_out = Ridge.fitted(features, wanted)
    rows = torch.cat([torch.ones(n, 1), (features - ridge.mean) / ridge.scale], dim=1).double()
    shrinkage = n * torch.diag(torch.tensor([0.0] + [1.0] * 40)).double()
    for i in (0, 7, n - 1):
        others = torch.arange(n) != i
        moment = rows[others].T @ rows[others] + shrinkage
        expected = rows[i] @ torch.linalg.solve(moment, rows[others].T @ wanted[others].double())
        torch.testing.assert_close(left_out[i].double(), expected, atol=1e-3, rtol=1e-3)


def regressed(n: int) -> tuple[Tensor, Tensor]:
    """Features (n, 40) and what is to be found from them, (n, classes)."""
    g = torch.Generator().manual_seed(0)
    return torch.randn(n, 40, generator=g), 3 + torch.randn(n, CLASSES, generator=g)
