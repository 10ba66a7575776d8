"""The networks are the published ones: by their number of weights, their strides and their equivalences."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from unsc.bench.networks import NETWORKS, VGG11, AlexNet, AllCNN, DenseNet, ResNet18, ResNet20, ResNet56, network
from unsc.bench.networks.dropout import Dropout
from unsc.errors import InvalidRequest


def weights(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("make", "classes", "published"),
    [
        (ResNet18, 10, 11_173_962),
        (ResNet18, 100, 11_220_132),  # 90 more rows of 512 weights and a bias
        (ResNet20, 10, 269_722),
        (ResNet56, 10, 853_018),
        (DenseNet, 10, 769_162),
        (VGG11, 10, 9_231_114),
        # All-CNN-C as published has 1,369,738; batch norm adds two numbers for each channel.
        (AllCNN, 10, 1_369_738 + 2 * (3 * 96 + 5 * 192)),
        # Counted by hand: three convolutions, three linear layers, two numbers for each normalised channel.
        (AlexNet, 10, 1_088 + 73_856 + 131_328 + 2_099_200 + 4_196_352 + 20_490 + 2 * (64 + 128 + 256 + 2 * 2048)),
    ],
)
def test_full_width_has_the_published_number_of_weights(make: type[nn.Module], classes: int, published: int) -> None:
    with torch.device("meta"):
        assert weights(make(classes)) == published


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_takes_width_channels_and_classes(name: str) -> None:
    """Half the width has about a quarter of the weights, and all end with a linear layer to the classes."""
    side = 8 if name == "digits-cnn" else 32
    half, full = (network(name, 7, 2, width).eval() for width in (0.5, 1.0))
    assert half(torch.randn(2, 2, side, side)).shape == (2, 7)
    assert weights(half) / weights(full) == pytest.approx(0.25, abs=0.03)
    *_, last = (m for m in half.modules() if not list(m.children()))
    assert isinstance(last, nn.Linear) and last.out_features == 7
    tiny = network(name, 7, 2, 0.01)
    assert tiny.eval()(torch.randn(1, 2, side, side)).shape == (1, 7)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("alexnet", [29, 12, 5]),
        ("vgg11", [32, 16, 8, 8, 4, 4, 2, 2]),
        ("allcnn", [32, 32, 16, 16, 16, 8, 8, 8]),
        ("resnet18", [32] * 5 + [16, 16, 16, 16, 16] + [8] * 5 + [4] * 5),
        ("resnet56", [32] * 19 + [16] * 18 + [8] * 18),
        ("densenet", [32] * 34 + [16] * 33 + [8] * 32),
    ],
)
def test_convolutions_see_the_published_resolutions(name: str, sizes: list[int]) -> None:
    """The side of every convolution's output for a 32x32 picture."""
    model, seen = network(name, 10, 3, 0.05).eval(), []
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(lambda m, args, output: seen.append(output.shape[-1]))
    model(torch.randn(1, 3, 32, 32))
    assert seen == sizes


def test_all_cnn_ends_as_a_1x1_convolution_and_a_mean_would() -> None:
    model = AllCNN(5, width=0.1).eval()
    *body, _, _, linear = model
    x = torch.randn(3, 3, 32, 32)
    features = nn.Sequential(*body)(x)
    weight, bias = linear.get_parameter("weight"), linear.get_parameter("bias")
    published = nn.functional.conv2d(features, weight[:, :, None, None], bias).mean(dim=(2, 3))
    assert torch.allclose(model(x), published, atol=1e-5)
    assert (published < 0).any()


def test_a_dense_layer_keeps_what_it_is_given_and_adds_its_growth() -> None:
    """At width 0.25 the growth is 3 channels, and a block of (16 - 4) / 6 layers starts with twice as many."""
    first, *layers = list(DenseNet(depth=16, width=0.25, stride=2).eval())[:3]
    x = first(torch.randn(2, 3, 32, 32))
    assert x.shape == (2, 6, 16, 16)
    for layer in layers:
        y = layer(x)
        assert y.shape[1] == x.shape[1] + 3 and torch.equal(y[:, : x.shape[1]], x)
        x = y


@pytest.mark.parametrize("depth", [4, 9, 40 + 1])
def test_a_depth_that_no_densenet_has_is_refused(depth: int) -> None:
    with pytest.raises(InvalidRequest, match=f"10, 16, 22, ... layers, not {depth}"):
        DenseNet(depth=depth)


def test_dropout_is_an_option_of_alexnet() -> None:
    model = network("alexnet", 10, 1, 0.1, dropout=0.3)
    assert [m.p for m in model.modules() if isinstance(m, nn.Dropout)] == [0.3] * 5


@pytest.mark.parametrize("p", [0.0, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_our_dropout_is_dropout(p: float, precision: torch.dtype) -> None:
    """A share p is dropped, within five standard deviations, and the others are scaled so that the mean stays."""
    dropout, x = Dropout(p), torch.ones(8, 5, 63, 61, dtype=precision).to(memory_format=torch.channels_last)
    x.requires_grad_()
    torch.manual_seed(0)
    y = dropout(x)
    y.sum().backward()
    assert y.is_contiguous(memory_format=torch.channels_last) and y.dtype == precision
    wanted = torch.tensor(1 / (1 - p) if p < 1 else 0.0).to(precision).item()
    assert y[y > 0].unique().tolist() == pytest.approx([wanted] if p < 1 else [], rel=2**-15)
    assert (y == 0).float().mean().item() == pytest.approx(p, abs=5 * (p * (1 - p) / x.numel()) ** 0.5 + 2**-17)
    assert x.grad is not None and torch.equal(x.grad, y)  # ones went in
    assert torch.equal(dropout.eval()(x), x)


def test_what_our_dropout_drops_is_independent() -> None:
    """Neighbours share a drawn number, but not its parts: half, a quarter and an eighth of them are kept together."""
    torch.manual_seed(0)
    kept = Dropout(0.5)(torch.ones(2**18, 4)) > 0
    for together in ([0, 1], [0, 3], [1, 2, 3]):
        share = kept[:, together].all(dim=1).float().mean().item()
        assert share == pytest.approx(0.5 ** len(together), abs=0.005)
    assert not torch.equal(Dropout(0.5)(torch.ones(64)), Dropout(0.5)(torch.ones(64)))


def test_wrong_requests_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="no network 'resnet-18'; did you mean resnet18"):
        network("resnet-18", 10, 3)
    for width in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InvalidRequest, match=f"width multiplier is {width}"):
            network("vgg11", 10, 3, width)
    with pytest.raises(InvalidRequest, match="1 classes and 3 input channels"):
        network("vgg11", 1, 3)


def test_a_users_own_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is given what it asks for by name, and no more."""
    (tmp_path / "own_networks_n.py").write_text(
        "from torch import nn\n"
        "def plain(num_classes): return nn.Linear(4, num_classes)\n"
        "def wide(channels, width): return nn.Linear(channels, int(10 * width))\n"
        "def nothing(): return None\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert network("own_networks_n:plain", 3, 1).out_features == 3
    wide = network("own_networks_n:wide", 3, 5, 0.5)
    assert (wide.in_features, wide.out_features) == (5, 5)
    with pytest.raises(InvalidRequest, match=r"own_networks_n:nothing returned a NoneType; .*torch\.nn\.Module"):
        network("own_networks_n:nothing", 3, 1)
