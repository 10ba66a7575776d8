"""Normalisation folded into convolutions: the same outputs, and nothing of what was there is changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, fx, nn

from unsc.folding import folded

NORMS: dict[int, Callable[[int], nn.Module]] = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
CONVOLUTIONS: dict[int, Callable[..., nn.Module]] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


def trained(model: nn.Module) -> nn.Module:
    """In evaluation mode, with statistics, scales and shifts that are not those of a new network."""
    torch.manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
            for t in (module.running_mean, module.running_var, module.weight, module.bias):
                if t is not None:
                    t.data.uniform_(0.5, 2)
    return model.eval()


def norms(model: nn.Module) -> int:
    return sum(isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d) for m in model.modules())


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"groups": 2, "stride": 2}])
def test_outputs_stay_and_the_normalisation_goes(dims: int, options: dict[str, int]) -> None:
    model = trained(nn.Sequential(CONVOLUTIONS[dims](4, 6, 3, **options), NORMS[dims](6), nn.ReLU()))
    x = torch.randn(2, 4, *[7] * dims)
    wanted, before = model(x), {name: t.clone() for name, t in model.state_dict().items()}
    found = folded(fx.symbolic_trace(model))
    assert norms(found) == 0
    torch.testing.assert_close(found(x), wanted)
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    torch.testing.assert_close(model(x), wanted)


class Seen(nn.Module):
    """What the convolution returns is also used by itself, or is normalised by the batch."""

    def __init__(self, *, twice: bool, by_batch: bool) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3, track_running_stats=not by_batch)
        self.twice = twice

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        return self.norm(y) + y if self.twice else self.norm(y)


def _doubled(module: nn.Module, args: tuple[Tensor], output: Tensor) -> Tensor:
    return 2 * output


def hooked() -> nn.Module:
    model = nn.Sequential(nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3))
    model[0].register_forward_hook(_doubled)
    return model


def parametrized() -> nn.Module:
    model = nn.Sequential(nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3))
    nn.utils.parametrizations.weight_norm(model[0])
    return model


@pytest.mark.parametrize(
    "model",
    [Seen(twice=True, by_batch=False), Seen(twice=False, by_batch=True), hooked(), parametrized()],
    ids=["seen", "by-batch", "hooked", "parametrized"],
)
def test_what_cannot_be_folded_stays(model: nn.Module) -> None:
    model, x = trained(model), torch.randn(4, 3, 6, 6)
    found = folded(fx.symbolic_trace(model))
    assert norms(found) == 1
    torch.testing.assert_close(found(x), model(x))
