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
    fit, records, trained = (views(n, seed, memorised=True) for n, seed in ((400, 0), (50, 1), (300, 2)))
    unseen = views(300, 3, memorised=False)
    found = read_out(fit, records, trained, unseen)
    assert found is not None
    assert found.layer == "middle"
    assert 0.45 < found.tells < 0.55
    only_deep = [Views(v.scores, {"deep": v.features["deep"]}) for v in (fit, records, trained, unseen)]
    assert read_out(*only_deep) is None


def test_the_read_out_is_ridge_regression() -> None:
    """Its weights solve the normal equations of standardised features, with a constant."""
    fit = views(60, 0, memorised=False)
    ridge = Ridge.fitted(fit.features["middle"], fit.scores)
    x = fit.features["middle"]
    rows = torch.cat([(x - x.mean(dim=0)) / (x.std(dim=0) + 1e-6), torch.ones(60, 1)], dim=1)
    residual = rows.T @ (rows @ ridge.weights - F.one_hot(fit.scores.labels, CLASSES)) + 60 * ridge.weights
    torch.testing.assert_close(residual, torch.zeros_like(residual), atol=1e-3, rtol=0)


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
    g = torch.Generator().manual_seed(0)
    features, labels = torch.randn(n, 40, generator=g), torch.randint(CLASSES, (n,), generator=g)
    ridge = Ridge.fitted(features, Scores(torch.zeros(n, CLASSES), labels))
    rows = torch.cat([(features - ridge.mean) / ridge.scale, torch.ones(n, 1)], dim=1).double()
    left = (rows.T @ rows + n * torch.eye(41)) @ ridge.weights.double()
    torch.testing.assert_close(left, rows.T @ F.one_hot(labels, CLASSES).double(), atol=1e-3, rtol=1e-3)
