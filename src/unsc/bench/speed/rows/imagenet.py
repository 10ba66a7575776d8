"""Networks of ImageNet's size: what preparation and a step cost, and the peak of memory.

Weights are random and images synthetic: cost does not depend on either. Each network is measured in a process of its
own. Preparation is timed on two numbers of samples; what a sample adds and what is there without any follow from the
two, and the arithmetic to as many samples as a request takes is kept with the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset

from unsc.api import retained_curvature, unlearn
from unsc.bench.speed.apart import apart
from unsc.bench.speed.clock import seconds, sgd_seconds
from unsc.bench.speed.images import Synthetic
from unsc.bench.speed.place import Missing, Place
from unsc.bench.speed.row import ROWS, Goal, Line, Row
from unsc.bench.speed.stages import Enough, Stages
from unsc.datasets import read
from unsc.errors import MissingExtra
from unsc.extras import need
from unsc.steps.estimate import MORE, SPARING

Loader: TypeAlias = DataLoader[tuple[torch.Tensor, int]]

_CHECK = 8
"""Retained samples to check on, as many as a step's batch: by default both are 128."""


@dataclass(frozen=True)
class LargeNetwork(Row):
    """One network."""

    network: str = "vit"
    title: str = "ViT-B/16"
    classes: int = 1000
    side: int = 224
    samples: tuple[int, int] = (16, 32)
    """Retained samples that preparation is timed on."""
    batch_size: int = 8
    config: dict[str, Any] = field(default_factory=dict)
    """What differs from the network's published configuration."""

    def measure(self, place: Place) -> Iterator[Line]:
        settings = {name: value for name, value in asdict(self).items() if name not in ("name", "number", "title")}
        found = apart(f"{__name__}:cost", **settings)
        given = found.given
        title = f"{self.title}, {self.classes:,} classes, {self.side}x{self.side}"
        yield Line(f"preparation, {title}", "", (given["preparation"],), unit="s", noted=given)
        yield Line(
            f"one budgeted step, {title}, batches of {self.batch_size}",
            "a plain SGD step on the same batch",
            (given["step"] / given["sgd"],),
            noted={"seconds": [given["step"], given["sgd"]]},
        )
        peak = found.peak_mib / 1024
        yield Line(f"peak memory, {title}", "", (peak,), unit="GiB", goal=Goal("at most", 8))


def cost(
    network: str, classes: int, side: int, samples: list[int], batch_size: int, config: dict[str, Any]
) -> dict[str, Any]:
    """Seconds of preparation, of a step and of a plain SGD step."""
    torch.manual_seed(0)
    model = _NETWORKS[network](classes, side, config)
    own = 4 * batch_size
    data = Synthetic(own * classes, classes, side)
    gone = (data.targets == 0).nonzero().flatten()[:own].tolist()
    stay = (data.targets != 0).nonzero().flatten().tolist()
    check = _loader(data, stay[:_CHECK])
    times, guide = [], None
    for count in samples:
        fit, few = _loader(data, stay[_CHECK : _CHECK + count]), _loader(data, gone[:batch_size])

        def prepare(fit: Loader = fit, few: Loader = few) -> None:
            nonlocal guide
            guide = retained_curvature(model, fit, check=check, forgotten=few, forget=[0])

        times.append(seconds(prepare))
    step = _step_seconds(model, _loader(data, gone), guide, check, batch_size)
    plain = sgd_seconds(model, read(data, gone[:batch_size]), repeats=1)
    return _extrapolated(samples, times) | {"step": step, "sgd": plain}


def _loader(data: Synthetic, chosen: list[int]) -> Loader:
    return DataLoader(Subset(data, chosen), batch_size=16)


def _step_seconds(model: nn.Module, forgotten: Loader, guide: Any, check: Loader, batch_size: int) -> float:
    """The mean of two steps after the first, and an eighth of what the first took more: it measured the layers."""
    stages = Stages(most_steps=3)
    options = {"batch_size": batch_size, "max_passes": 4, "stop_mass": 0.0, "max_kl": 1e9}
    with suppress(Enough):
        unlearn(model, forgotten, guide, retained=check, forget=[0], progress=stages, **options)
    first = stages.loop - 2 * stages.seconds_per_step
    return stages.seconds_per_step + max(first - stages.seconds_per_step, 0) / 8


def _extrapolated(samples: list[int], times: list[float]) -> dict[str, Any]:
    """What a request takes, from the times that two numbers of samples took."""
    each = max(times[1] - times[0], 0.0) / (samples[1] - samples[0])
    fixed = max(times[0] - each * samples[0], 0.0)
    # A sample here is seen once for its moments, and for the sensitivities forward and backward: four forward passes.
    # A request takes moments of a multiple of the first samples and of those to check, and sensitivities of some.
    passes = MORE * SPARING.samples + SPARING.check_samples + 3 * SPARING.sensitivity_samples
    wanted = passes / 4
    return {
        "preparation": fixed + each * wanted,
        "seconds_without_samples": fixed,
        "seconds_per_sample": each,
        "samples_to_scale_to": wanted,
        "timed": [list(samples), times],
    }


def _vit(classes: int, side: int, config: dict[str, Any]) -> nn.Module:
    transformers = _transformers()
    made = transformers.ViTConfig(num_labels=classes, image_size=side, **config)
    return transformers.ViTForImageClassification(made).eval()


def _resnet50(classes: int, side: int, config: dict[str, Any]) -> nn.Module:
    transformers = _transformers()
    return transformers.ResNetForImageClassification(transformers.ResNetConfig(num_labels=classes, **config)).eval()


def _transformers() -> Any:
    try:
        return need("transformers", extra="hugging-face")
    except MissingExtra as e:
        raise Missing(f"the networks are made by transformers: {e}") from None


_NETWORKS = {"vit": _vit, "resnet50": _resnet50}

ROWS.add(LargeNetwork("vit", 9))
ROWS.add(LargeNetwork("resnet50", 9, network="resnet50", title="ResNet-50"))
