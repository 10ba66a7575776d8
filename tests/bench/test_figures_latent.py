"""The latent space: what is embedded, where embeddings start, and the shares of neighbours."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from unsc.batches import Batch
from unsc.bench.figures import latent
from unsc.errors import MissingExtra


class Calls:
    """An embedding that takes the first two features, and keeps what it was given."""

    def __init__(self) -> None:
        self.given: list[tuple[np.ndarray, np.ndarray | None]] = []

    def __call__(self, features: np.ndarray, start: np.ndarray | None) -> np.ndarray:
        self.given.append((features, start))
        return features[:, :2]


def network(*scale: float) -> nn.Sequential:
    """Its last layer sees the input times `scale`, one for both coordinates or one for each."""
    first = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        first.weight.copy_(torch.tensor(scale).expand(2).diag())
    return nn.Sequential(first, nn.Linear(2, 3)).eval()


@pytest.fixture
def samples() -> Batch:
    """Three groups of 20, far apart; the third is of classes 1 and 2 in turn."""
    centres = torch.tensor([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0]]).repeat_interleave(20, dim=0)
    noise = torch.rand(60, 2, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0] * 20 + [1] * 20 + [1, 2] * 10)
    return Batch(centres + noise, labels)


def test_four_panels_of_what_the_last_layer_sees(samples: Batch) -> None:
    calls = Calls()
    found = latent.measure(network(1.0), network(2.0), network(1.0), samples, classes=(0,), embed=calls)
    assert list(found["panels"]) == ["original, all", "unlearned, all", "original, retained", "unlearned, retained"]
    for panel, scale, shown in zip(found["panels"].values(), (1, 2, 1, 2), (0, 0, 20, 20), strict=True):
        assert panel["labels"] == samples.labels[shown:].tolist()
        assert panel["x"] == pytest.approx((scale * samples.inputs[shown:, 0]).tolist(), abs=0.006)
        assert panel["y"] == pytest.approx((scale * samples.inputs[shown:, 1]).tolist(), abs=0.006)


def test_the_unlearned_start_where_the_original_ended(samples: Batch) -> None:
    calls = Calls()
    latent.measure(network(1.0), network(2.0), network(1.0), samples, classes=(0,), embed=calls)
    for original, unlearned in (calls.given[:2], calls.given[2:]):
        assert original[1] is None and unlearned[1] is not None
        assert np.array_equal(unlearned[1], original[0][:, :2])


def test_shares_of_neighbours(samples: Batch) -> None:
    found = latent.measure(network(1.0), network(1.0, 0.0), network(1.0), samples, classes=(0,), embed=Calls())[
        "neighbours"
    ]
    assert found["original"]["forgotten"] == 1.0  # all 15 are of the same group
    mixed = found["original"]["retained"]
    assert 0.5 * (1 + 0.3) < mixed < 0.5 * (1 + 0.6)  # half of them pure, half of them of two classes
    assert 0.3 < found["unlearned"]["forgotten"] < 0.7  # the first and the third group are in one place


def test_accuracy_is_the_network_s_own(samples: Batch) -> None:
    unlearned = network(1.0)
    with torch.no_grad():
        unlearned[1].get_parameter("weight").zero_()
        unlearned[1].get_parameter("bias").copy_(torch.tensor([0.0, 1.0, 0.0]))  # all is class 1
    found = latent.measure(network(1.0), unlearned, network(1.0), samples, classes=(0,), embed=Calls())["accuracy"]
    assert found["unlearned"] == {"forgotten": 0.0, "retained": 0.75}
    assert found["original"].keys() == found["retrained"].keys() == {"forgotten", "retained"}


def test_a_sample_is_not_its_own_neighbour() -> None:
    twins = Batch(torch.zeros(8, 2), torch.arange(8) % 4)
    found = latent.measure(network(1.0), network(1.0), network(1.0), twins, classes=(0,), embed=Calls())["neighbours"]
    assert found["original"] == {"forgotten": pytest.approx(1 / 7), "retained": pytest.approx(1 / 7)}


def test_without_umap_the_error_says_what_to_install(samples: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(MissingExtra, match=r"pip install 'unsc\[figures\]'"):
        latent.measure(network(1.0), network(2.0), network(1.0), samples, classes=(0,))


def test_the_picture_needs_the_file_alone(samples: Batch, tmp_path: Path) -> None:
    found = latent.measure(network(1.0), network(2.0), network(1.0), samples, classes=(0,), embed=Calls())
    latent.draw(json.loads(json.dumps(found)), tmp_path / "latent.png")
    assert (tmp_path / "latent.png").read_bytes().startswith(b"\x89PNG")
