"""Training in bfloat16: layers compute in it, weights stay float32, and a run is of one precision from end to end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import Subset

from unsc.bench.data.shared.image_data import DATA
from unsc.bench.datasets import Split
from unsc.bench.networks import digits_cnn
from unsc.bench.train import Protocol, train
from unsc.errors import InvalidData, InvalidRequest

HALF = Protocol(epochs=3, batch_size=32, lr=0.1, schedule="one-cycle", precision="bfloat16")


def new() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return digits_cnn(width=0.5)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_layers_compute_in_the_precision_and_weights_stay_float32(digits: Split, precision: str) -> None:
    met: set[torch.dtype] = set()
    model = new()
    first = next(m for m in model.modules() if isinstance(m, nn.Conv2d))
    handle = first.register_forward_hook(lambda m, given, made: met.add(made.dtype))
    data = Subset(digits.train, range(64))
    made = train(model, data, data, replace(HALF, epochs=1, precision=precision))  # type: ignore[arg-type]
    assert met == {getattr(torch, precision)}
    handle.remove()
    floats = [t for t in made.model.state_dict().values() if t.is_floating_point()]
    assert floats and all(t.dtype == torch.float32 for t in floats)
    assert made.model(digits.test.tensors[0][:4]).dtype == torch.float32  # outside of training all is as usual


def test_it_learns(digits: Split) -> None:
    """And what it reports of the held-out samples holds in float32, up to a few at the border."""
    made = train(new(), digits.train, digits.test, HALF)
    with torch.no_grad():
        hits = (made.model(digits.test.tensors[0]).argmax(dim=1) == digits.test.tensors[1]).float().mean().item()
    assert hits > 0.9 and hits == pytest.approx(made.history[-1].validation_acc, abs=0.02)


def test_a_resumed_run_ends_with_the_same_weights(digits: Split, tmp_path: Path) -> None:
    class Killed(Exception):
        """Stands in for a process that ends after an epoch."""

    def die(line: str) -> None:
        raise Killed

    data, path = Subset(digits.train, range(200)), tmp_path / "run.pt"
    whole = train(new(), data, None, HALF)
    with pytest.raises(Killed):
        train(new(), data, None, HALF, checkpoint=path, log=lambda line: die(line) if "epoch 3" in line else None)
    with pytest.raises(InvalidData, match="protocol's precision bfloat16, here float32"):
        train(new(), data, None, replace(HALF, precision="float32"), checkpoint=path)
    resumed = train(new(), data, None, HALF, checkpoint=path)
    a, b = (made.model.state_dict() for made in (whole, resumed))
    assert a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_unknown_precisions_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="precision is 'float8'; give one of float32, bfloat16"):
        Protocol(epochs=1, precision="float8")  # type: ignore[arg-type]


def test_presets_say_which_precision_they_are_trained_in() -> None:
    """Only `long`, `deep` and `recipe` round, so that their networks are not mistaken for those of the others."""
    found = {(name, which, p.protocol.precision) for name, d in DATA.all().items() for which, p in d.presets.items()}
    rounding = ("long", "deep", "recipe")
    assert {precision for _, which, precision in found if which not in rounding} == {"float32"}
    assert {one for one in found if one[1] in rounding} == {
        ("cifar-10", "deep", "bfloat16"),
        ("cifar-10", "long", "bfloat16"),
        ("cifar-100", "long", "bfloat16"),
        ("fashion-mnist", "long", "bfloat16"),
        ("fashion-mnist", "recipe", "bfloat16"),
        ("svhn", "long", "bfloat16"),
    }
