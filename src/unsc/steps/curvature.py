"""What a weight change costs the retained data: the curvature that guides the budgeted step.

To second order, moving a layer's matrix by D changes retained predictions by `KL = b/2 tr(D A D.T)` nats, where A
is the retained second moment of its rows (summed over positions, averaged over samples) and b its sensitivity.

A is an estimate, and its inverse runs into directions that look free only because few samples were seen. So A
is damped to `A + damping I`, and the damping is chosen for each layer as the one whose step buys the most
forgetting for its cost on *other* retained samples (`choose_damping`). No rule of thumb is left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.errors import InvalidData
from unsc.layers import Layer, parameters_of
from unsc.logits import logits_of
from unsc.moments import Moment
from unsc.request import Request
from unsc.storage.files import load_tensors, save_tensors
from unsc.watch import Watch

_GRID = tuple(10.0**e for e in range(-4, 5))
"""Dampings to try, in units of A's mean eigenvalue."""
_KIND, _FORMER_KIND = "retained_curvature", "retained_metric"
"""What a saved file says it is: now, and in 0.2.0."""


@dataclass(frozen=True)
class LayerCurvature:
    """`b (A + damping I)` of one layer, by the eigenpairs of A."""

    values: Tensor
    """Eigenvalues of A, (groups, m)."""
    vectors: Tensor
    """Eigenvectors of A, (groups, columns, m); all others have the eigenvalue 0."""
    sensitivity: float
    """b: mean squared gradient of retained predictions by an output unit."""
    damping: float

    def to(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> LayerCurvature:
        values, vectors = (t.to(device=device, dtype=dtype) for t in (self.values, self.vectors))
        return replace(self, values=values, vectors=vectors)

    def solve(self, gradient: Tensor) -> Tensor:
        """`G (b (A + damping I))^-1` for G (groups, outputs, columns)."""
        shrink = self.values / (self.values + self.damping)
        inside = (gradient @ self.vectors * shrink[:, None, :]) @ self.vectors.mT
        return (gradient - inside) / (self.damping * self.sensitivity)

    def kl(self, displacement: Tensor) -> float:
        """The predicted retained KL of D (groups, outputs, columns), by A alone, without its damping."""
        inside = (displacement @ self.vectors).double().square() * self.values.double()[:, None, :]
        return 0.5 * self.sensitivity * inside.sum().item()


@dataclass(frozen=True)
class RetainedCurvature:
    """The curvature of every layer."""

    layers: dict[str, LayerCurvature]
    samples: int
    """How many retained samples A is the mean of."""

    def layer_names(self) -> Collection[str]:
        return self.layers.keys()

    def check(self, request: Request, labels: Tensor) -> None:
        """It is a cost for every direction, and so serves any request."""

    def to(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> RetainedCurvature:
        """On another device and in another precision."""
        return replace(self, layers={name: layer.to(device, dtype) for name, layer in self.layers.items()})

    def save(self, path: str | Path) -> None:
        """Write a safetensors file that `RetainedCurvature.load` reads."""
        tensors = {f"{name}/values": x.values for name, x in self.layers.items()}
        tensors |= {f"{name}/vectors": x.vectors for name, x in self.layers.items()}
        numbers = {name: {"sensitivity": x.sensitivity, "damping": x.damping} for name, x in self.layers.items()}
        save_tensors(Path(path), tensors, {"kind": _KIND, "layers": numbers, "samples": self.samples})

    @classmethod
    def load(cls, path: str | Path) -> RetainedCurvature:
        tensors, metadata = load_tensors(Path(path))
        found = metadata.get("kind")
        if found not in (_KIND, _FORMER_KIND):
            raise InvalidData(f"{path} holds a {found}, not a retained curvature; load it with its own class")
        layers = {
            name: LayerCurvature(tensors[f"{name}/values"], tensors[f"{name}/vectors"], **numbers)
            for name, numbers in metadata["layers"].items()
        }
        return cls(layers, metadata["samples"])


def assemble(
    layers: Sequence[Layer],
    fitted: Mapping[str, Moment],
    held_out: Mapping[str, Moment],
    samples: tuple[int, int],
    sensitivities: Mapping[str, float],
    gradients: Mapping[str, Tensor],
) -> RetainedCurvature:
    """Put the curvature together.

    `fitted` and `held_out` are the moments of two sets of retained samples, of sizes `samples`; `gradients` (by
    layer) are those of the forget loss, whose steps the damping is chosen for.
    """
    made = {}
    for layer in layers:
        values, vectors = fitted[layer.name].spectrum()
        found = LayerCurvature((values / samples[0]).float(), vectors.float(), sensitivities[layer.name], 0.0)
        made[layer.name] = choose_damping(found, gradients[layer.name], held_out[layer.name], samples[1])
    return RetainedCurvature(made, samples[0])


def choose_damping(curvature: LayerCurvature, gradient: Tensor, held_out: Moment, samples: int) -> LayerCurvature:
    """The curvature with the damping that buys the most forgetting per held-out cost.

    For the step D along `gradient` G the forget loss falls by `<G, D>`, while `samples` held-out retained samples
    with moment `held_out` charge `tr(D A' D.T)`. The square of the first over the second does not depend on
    D's length. The sensitivity is corrected by what the held-out samples charge beyond what was predicted.
    """
    gradient = gradient.to(curvature.vectors.dtype)  # that of a float64 model is float64
    mean = curvature.values.sum().item() / (curvature.values.shape[0] * curvature.vectors.shape[1])
    if mean == 0:
        return replace(curvature, damping=1.0)
    best, best_worth = replace(curvature, damping=mean), -1.0
    for ratio in _GRID:
        tried = replace(curvature, damping=ratio * mean)
        step = tried.solve(gradient)
        gain = (gradient.double() * step.double()).sum().item()
        cost = curvature.sensitivity * held_out.quadratic(step).sum().item() / samples
        if gain > 0 and cost > 0 and gain**2 / cost > best_worth:
            best_worth = gain**2 / cost
            best = replace(tried, sensitivity=curvature.sensitivity * max(1.0, cost / gain))
    return best


def worth(curvature: LayerCurvature, gradient: Tensor, held_out: Moment, samples: int) -> float:
    """What `choose_damping` chooses by, up to the sensitivity: the squared gain of a step over its held-out cost."""
    step = curvature.solve(gradient.to(curvature.vectors.dtype))
    gain = (gradient.double() * step.double()).sum().item()
    cost = held_out.quadratic(step).sum().item() / samples
    return gain**2 / cost if cost > 0 else 0.0


def sensitivities(
    model: nn.Module,
    layers: Sequence[Layer],
    batches: Iterable[Batch],
    moments: Mapping[str, Moment],
    samples: int,
    watch: Watch,
    *,
    generator: torch.Generator,
) -> dict[str, float]:
    """Each layer's b, from retained `batches` and the traces of retained `moments` of so many `samples`.

    With labels drawn from the network's own (softened) predictions, gradients of different samples are
    independent with mean zero, so the squared norm of a batch's summed gradient is an unbiased estimate of
    its samples' summed Fisher traces: no gradient of a single sample is needed, whatever the layer.
    """
    parameters = parameters_of(model, layers)
    fisher = dict.fromkeys((x.name for x in layers), 0.0)
    seen = 0
    for batch in batches:
        batch = batch.for_model(model)
        logs = watch.log_probabilities(logits_of(model, batch))
        drawn = torch.multinomial(logs.detach().exp().cpu(), 1, generator=generator)[:, 0].to(logs.device)
        loss = watch.temperature * F.nll_loss(logs, drawn, reduction="sum")
        grads = gradients_of(loss, parameters)
        for layer in layers:
            fisher[layer.name] += layer.matrix(grads).double().square().sum().item()
        seen += len(batch)
    traces = {x.name: x.outputs * moments[x.name].trace().sum().item() / samples for x in layers}
    # A layer that retained predictions do not depend on at all would be free; keep its cost finite.
    return {name: max(fisher[name] / seen, 1e-12) / max(trace, 1e-12) for name, trace in traces.items()}


def gradients_of(loss: Tensor, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The gradients of `loss` by name; zero where it does not depend on a parameter."""
    grads = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True, materialize_grads=True)
    return dict(zip(parameters, grads, strict=True))
