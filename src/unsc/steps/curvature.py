"""What a weight change costs the retained data: the curvature that guides the budgeted step.

To second order, moving a layer's matrix by D changes retained predictions by `KL = b/2 tr(D A D.T)` nats, where A
is the retained second moment of its rows (summed over positions, averaged over samples) and b its sensitivity.

A is an estimate, and its inverse runs into directions that look free only because few samples were seen. So A
is damped to `A + damping I`, and the damping is chosen for each layer as the one whose step buys the most
forgetting for its cost on *other* retained samples (`choose_damping`). No rule of thumb is left.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import overload

import torch
from torch import Tensor

from unsc.errors import InvalidData
from unsc.layers import Layer
from unsc.moments import Moment
from unsc.request import Request
from unsc.steps.factors import LowRank, Matrix
from unsc.storage.files import load_tensors, save_tensors

_GRID = tuple(10.0**e for e in range(-4, 5))
"""Dampings to try, in units of A's mean eigenvalue."""
_KIND, _FORMER_KIND = "retained_curvature", "retained_metric"
"""What a saved file says it is: now, and in 0.2.0."""


_MANY, _LEADING = 1024, 512
"""Rows and columns beyond which a layer's curvature is that of its leading eigenvectors, and how many these are. In
layers so wide the others hold a few thousandths of the rows' energy, and the damping speaks for them."""
_SOME, _FIRST, _HELD = 768, 256, 0.99
"""Rows and columns beyond which fewer are tried first, how many, and the share of the energy that makes them enough."""


def _fewer_rows(gradient: Matrix) -> Tensor:
    """A matrix with the same `G.T G` and fewer rows, where there is one: gains and costs depend on nothing else."""
    return torch.linalg.qr(gradient.left)[1] @ gradient.right if isinstance(gradient, LowRank) else gradient


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

    def of_groups(self, groups: slice) -> LayerCurvature:
        """Of some groups alone."""
        return replace(self, values=self.values[groups], vectors=self.vectors[groups])

    @overload
    def solve(self, gradient: LowRank) -> LowRank: ...
    @overload
    def solve(self, gradient: Tensor) -> Tensor: ...
    def solve(self, gradient: Matrix) -> Matrix:
        """`G (b (A + damping I))^-1` for G (groups, outputs, columns)."""
        if isinstance(gradient, LowRank):  # the inverse acts on as many rows as the gradient has samples
            return LowRank(gradient.left, self._solve(gradient.right))
        return self._solve(gradient)

    def _solve(self, gradient: Tensor) -> Tensor:
        along = gradient @ self.vectors
        if self.complete:
            return (along / self._costs()) @ self.vectors.mT
        return (gradient - (along * self._shrink()) @ self.vectors.mT) / (self.damping * self.sensitivity)

    def inverse(self) -> Tensor:
        """`(b (A + damping I))^-1`, (groups, columns, columns)."""
        if self.complete:
            return (self.vectors / self._costs()) @ self.vectors.mT
        inside = (self.vectors * self._shrink()) @ self.vectors.mT
        inside.neg_().diagonal(dim1=1, dim2=2).add_(1)
        return inside.div_(self.damping * self.sensitivity)

    @property
    def complete(self) -> bool:
        """Whether no direction is outside of the eigenvectors.

        Then the inverse is made of them alone. What is left of a gradient without them would be nothing but rounding,
        which a small damping makes a thousandth of the step, another one for every number of processes.
        """
        return self.vectors.shape[1] == self.vectors.shape[2]

    def _costs(self) -> Tensor:
        """Of each eigenvector, (groups, 1, m)."""
        return (self.sensitivity * (self.values + self.damping))[:, None, :]

    def _shrink(self) -> Tensor:
        """The share of a direction outside's way that the inverse takes off each eigenvector's, (groups, 1, m)."""
        return (self.values / (self.values + self.damping))[:, None, :]

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

    def of_groups(self, groups: Mapping[str, slice]) -> RetainedCurvature:
        """Of some groups of each layer alone."""
        return replace(self, layers={name: self.layers[name].of_groups(chosen) for name, chosen in groups.items()})

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
    gradients: Mapping[str, Matrix],
) -> RetainedCurvature:
    """Put the curvature together.

    `fitted` and `held_out` are the moments of two sets of retained samples, of sizes `samples`; `gradients` (by
    layer) are those of the forget loss, whose steps the damping is chosen for.
    """
    made = {
        x.name: curvature_of(fitted[x.name], held_out[x.name], samples, sensitivities[x.name], gradients[x.name])[0]
        for x in layers
    }
    return RetainedCurvature(made, samples[0])


def curvature_of(
    fitted: Moment, held_out: Moment, samples: tuple[int, int], sensitivity: float, gradient: Matrix
) -> tuple[LayerCurvature, float]:
    """That of one layer, and what its first step buys for its held-out cost."""
    values, vectors = _eigenpairs(fitted)
    found = LayerCurvature((values / samples[0]).float(), vectors.float(), sensitivity, 0.0)
    return best_damping(found, gradient, held_out, samples[1])


def _eigenpairs(moment: Moment) -> tuple[Tensor, Tensor]:
    """As many eigenvalues (groups, m) and eigenvectors (groups, columns, m) as speak for a layer, the largest first."""
    size = min(moment.count, moment.columns)
    if size > _SOME:
        found = moment.leading(_FIRST)
        if found[0].sum() >= _HELD * moment.trace().sum():
            return found
    return moment.leading(_LEADING) if size > _MANY else moment.spectrum()


def best_damping(
    curvature: LayerCurvature, gradient: Matrix, held_out: Moment, samples: int
) -> tuple[LayerCurvature, float]:
    """The curvature with the damping that buys the most forgetting per held-out cost, and how much that is.

    For the step D along `gradient` G the forget loss falls by `<G, D>`, while `samples` held-out retained samples
    with moment `held_out` charge `tr(D A' D.T)`. The square of the first over the second does not depend on
    D's length; it is given without the sensitivity. That is corrected by what the held-out samples charge beyond
    what was predicted.
    """
    mean = curvature.values.sum().item() / (curvature.values.shape[0] * curvature.vectors.shape[1])
    if mean == 0:
        return replace(curvature, damping=1.0), 0.0
    # That of a float64 model is float64.
    trial = _Trial.of(curvature, _fewer_rows(gradient).to(curvature.vectors.dtype), held_out)
    best, best_worth = replace(curvature, damping=mean), 0.0
    for ratio in _GRID:
        damping = ratio * mean
        gain, cost = trial.gain(damping), trial.cost(damping) / samples
        if gain > 0 and cost > 0 and gain**2 / cost > best_worth:
            best_worth = gain**2 / cost
            best = replace(curvature, damping=damping, sensitivity=curvature.sensitivity * max(1.0, cost / gain))
    return best, best_worth


def choose_damping(curvature: LayerCurvature, gradient: Matrix, held_out: Moment, samples: int) -> LayerCurvature:
    """The curvature of `best_damping`."""
    return best_damping(curvature, gradient, held_out, samples)[0]


@dataclass(frozen=True)
class _Trial:
    """Gain and held-out cost of the step `D = G (A + damping I)^-1`, ready for any damping.

    With P the components of G along the eigenvectors V of A, and R what is left of G outside of them,
    `D = P diag(1 / (a + damping)) V.T + R / damping`. Gain and cost are forms in one number for each eigenvector: a
    single look at G and A' serves all dampings.
    """

    values: Tensor
    """a, (groups, m)."""
    gains: Tensor
    """`|P_j|^2`, (groups, m)."""
    costs: Tensor
    """`(P.T P) * (V.T A' V)`, element by element, (groups, m, m)."""
    rest_gain: float
    """`|R|^2`"""
    rest_costs: Tensor
    """`P_j . (R A' V)_j`, (groups, m)."""
    rest_cost: float
    """`tr(R A' R.T)`"""

    @classmethod
    def of(cls, curvature: LayerCurvature, gradient: Tensor, held_out: Moment) -> _Trial:
        vectors = curvature.vectors
        along = gradient @ vectors
        values, gains = curvature.values.double(), along.double().square().sum(dim=1)
        if curvature.complete:
            costs = (along.mT @ along).double() * held_out.within(vectors.mT)
            return cls(values, gains, costs, 0.0, torch.zeros_like(gains), 0.0)
        rest = gradient - along @ vectors.mT
        m = vectors.shape[2]
        both = held_out.within(torch.cat([vectors.mT, rest], dim=1))
        costs, mixed = (along.mT @ along).double() * both[:, :m, :m], (along.double() * both[:, m:, :m]).sum(dim=1)
        rest_cost = both[:, m:, m:].diagonal(dim1=1, dim2=2).sum().item()
        return cls(values, gains, costs, rest.double().square().sum().item(), mixed, rest_cost)

    def gain(self, damping: float) -> float:
        return (self.gains / (self.values + damping)).sum().item() + self.rest_gain / damping

    def cost(self, damping: float) -> float:
        share = 1 / (self.values + damping)
        inside = (share[:, None, :] @ self.costs @ share[:, :, None]).sum().item()
        return inside + 2 * (share * self.rest_costs).sum().item() / damping + self.rest_cost / damping**2
