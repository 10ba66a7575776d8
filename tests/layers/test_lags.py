"""The moment of patches without the patches is that of unfolded ones, whatever the kernel does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.collect import collect
from unsc.layers import find_layers
from unsc.layers.lags import Patches
from unsc.moments import Moment

Convs = {
    "plain": (nn.Conv2d(8, 3, 3), (8, 9)),
    "padded": (nn.Conv2d(8, 3, 3, padding=1), (6, 5)),
    "without a bias": (nn.Conv2d(8, 3, 3, padding=1, bias=False), (7, 6)),
    "stride": (nn.Conv2d(8, 3, 3, stride=2, padding=1), (9, 8)),
    "stride along one": (nn.Conv2d(8, 3, (3, 2), stride=(1, 2)), (9, 8)),
    "dilated": (nn.Conv2d(8, 3, 3, dilation=2, padding=2), (7, 9)),
    "groups": (nn.Conv2d(16, 4, 3, padding=1, groups=2), (6, 6)),
    "same, even kernel": (nn.Conv2d(8, 3, 4, padding="same"), (7, 7)),
    "reflected": (nn.Conv2d(8, 3, 3, padding=2, padding_mode="reflect"), (6, 7)),
    "kernel as large as the input": (nn.Conv2d(8, 3, 5, padding=2), (3, 3)),
    "one dimension": (nn.Conv1d(8, 3, 4, padding=1), (13,)),
    "three dimensions": (nn.Conv3d(8, 3, (2, 3, 2), padding=(1, 1, 0)), (4, 5, 4)),
}


def inputs(conv: nn.Module, sizes: tuple[int, ...], n: int = 70) -> Tensor:
    g = torch.Generator().manual_seed(0)
    channels: Any = conv.in_channels
    return torch.randn(n, channels, *sizes, generator=g, dtype=torch.float64) + 0.5


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("name", Convs)
def test_it_is_that_of_unfolded_patches(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For every form of a convolution, and batches of images of two sizes; and it is the way that is taken."""
    monkeypatch.setattr("unsc.layers.lags._WORTH", 0.0)
    monkeypatch.setattr("unsc.layers.lags._MOST_SUMMED", 100)  # runs are cut too
    conv, sizes = Convs[name]
    conv = conv.double().eval()
    model = nn.Sequential(conv, nn.Flatten(1), nn.AdaptiveAvgPool1d(2)).eval()
    layers = find_layers(model).layers
    images = [inputs(conv, sizes), inputs(conv, tuple(s + 1 for s in sizes))]
    batches = [Batch(x, torch.zeros(len(x), dtype=torch.long)) for x in images]
    taken: list[bool] = []
    usual = Patches.correlations

    def noted(self: Patches, most_bytes: int) -> Any:
        found = usual(self, most_bytes)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(Patches, "correlations", noted)
    ours = collect(model, layers, batches)["0"]
    assert taken == [True, True]
    monkeypatch.setattr(Patches, "correlations", lambda self, most_bytes: None)
    wanted = collect(model, layers, batches)["0"]
    assert ours.count == wanted.count
    torch.testing.assert_close(ours.dense(), wanted.dense(), rtol=1e-12, atol=1e-9)


def explicit(conv: nn.Conv2d, x: Tensor) -> Tensor:
    rows = torch.nn.functional.unfold(x, 3, padding=1).mT.flatten(0, 1)
    return torch.cat([rows, torch.ones(len(rows), 1, dtype=rows.dtype)], dim=1)


def test_float32_is_summed_a_little_at_a_time() -> None:
    """Of 16,384 patches, against an oracle that shares no code, in float64: within 1e-6 of the largest entry."""
    torch.manual_seed(0)
    conv = nn.Conv2d(16, 4, 3, padding=1)
    model = nn.Sequential(conv, nn.Flatten()).eval()
    x = torch.randn(64, 16, 16, 16).relu()
    found = collect(model, find_layers(model).layers, [Batch(x, torch.zeros(64, dtype=torch.long))])["0"]
    rows = explicit(conv, x.double())
    wanted = rows.T @ rows
    assert (found.dense()[0] - wanted).abs().max() < 1e-6 * wanted.abs().max()


@pytest.mark.parametrize(
    ("conv", "n", "why"),
    [
        (nn.Conv2d(8, 2, 3), 1, "fewer rows than columns"),
        (nn.Conv2d(3, 2, 3), 50, "few channels"),
        (nn.Conv2d(8, 2, 1), 50, "no overlap"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_rows_are_made_where_that_is_cheaper(conv: nn.Conv2d, n: int, why: str) -> None:
    model = nn.Sequential(conv, nn.Flatten()).eval()
    (layer,) = find_layers(model).layers
    x = torch.randn(n, conv.in_channels, 8, 8)
    seen = collect(model, [layer], [Batch(x, torch.zeros(n, dtype=torch.long))])["0"]
    rows = torch.nn.functional.unfold(x, conv.kernel_size).mT.flatten(0, 1)  # pyright: ignore[reportArgumentType]
    wanted = Moment(1, layer.columns).update(torch.cat([rows, torch.ones(len(rows), 1)], dim=1)[None])
    torch.testing.assert_close(seen.dense(), wanted.dense(), rtol=1e-5, atol=1e-3)


def test_without_memory_for_it_rows_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("not enough memory: you tried to allocate")

    model = nn.Sequential(nn.Conv2d(8, 2, 3, padding=1), nn.Flatten()).double().eval()
    x = inputs(model[0], (8, 8))
    batches = [Batch(x, torch.zeros(len(x), dtype=torch.long))]
    layers = find_layers(model).layers
    wanted = collect(model, layers, batches)["0"].dense()
    monkeypatch.setattr("unsc.layers.lags._correlated", fails)
    torch.testing.assert_close(collect(model, layers, batches)["0"].dense(), wanted)
