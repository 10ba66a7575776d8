"""Deep unlearning by projection: what only forgotten inputs use is taken out of every weight."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.utils.data import Dataset

from unsc.collect import collect
from unsc.datasets import read, read_batches, read_labels, size_of
from unsc.errors import InvalidRequest
from unsc.layers import Layer, parameters_of
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.sampling import some_of_each_class
from unsc.methods.shared.search import Range
from unsc.models import editable_layers
from unsc.moments import Moment

_BATCH = 64


@method(
    needs=("forget", "retain"),
    kinds=("classes",),
    search={"alpha_r": Range(1.0, 1e4, log=True), "alpha_f": Range(0.1, 1e3, log=True)},
)
def svd(problem: Problem, *, alpha_r: float = 100.0, alpha_f: float = 3.0, samples: int = 900) -> nn.Module:
    """Source: Kodge, Saha, Roy, "Deep Unlearning: Fast and Efficient Gradient-free Class Forgetting", TMLR 2024.

    Mechanism: in each layer, singular vectors of the inputs, weighted by importance, span a retain space P_r and a
    forget space P_f, and the weights become W - W (I - P_r) P_f, blind to what forgotten inputs do not share.

    Data: forgotten and retained, a few of each.

    Published: alpha_r = 100 and alpha_f = 3 for CIFAR-10 (VGG-11), from the grids 10, 30, 100, 300, 1,000 and 1, 3, 10,
    30, 100 by the highest product of retained accuracy and forgotten error; 900 retained samples, as many of each
    class, and 900 forgotten ones. The importance of a direction with the share s of the energy is
    alpha s / ((alpha - 1) s + 1).

    Departures: one pair of alphas is applied; finding the best is left to a search. Convolutions take all patches
    of each picture, by their second moments. Biases stay as they are, as published.
    """
    if not alpha_r > 0 or not alpha_f > 0:
        raise InvalidRequest(f"alpha_r={alpha_r}, alpha_f={alpha_f}; allowed are numbers above 0")
    model = problem.copy()
    layers = _weights_alone(model, problem.retain)
    retained = _moments(problem, model, layers, problem.retain, samples)
    forgotten = _moments(problem, model, layers, problem.forget, samples)
    named = parameters_of(model, layers)
    for layer in layers:
        weight = layer.matrix(named).detach()
        shared = scaled_projector(retained[layer.name], alpha_r)
        own = scaled_projector(forgotten[layer.name], alpha_f)
        wide = weight.double()
        layer.write((wide - own(wide - shared(wide))).to(weight.dtype), named)
    return model


def scaled_projector(moment: Moment, alpha: float) -> Callable[[Tensor], Tensor]:
    """Multiplies matrices (groups, outputs, columns) from the right by `U diag(importance) U.T` of a moment's rows."""
    values, vectors = moment.spectrum()
    share = values / values.sum(dim=1, keepdim=True).clamp(min=1e-300)
    importance = alpha * share / ((alpha - 1) * share + 1)
    return lambda matrix: (matrix @ vectors * importance[:, None, :]) @ vectors.mT


def _weights_alone(model: nn.Module, dataset: Dataset) -> tuple[Layer, ...]:
    """The layers without their biases, which stay."""
    probe = read(dataset, range(min(4, size_of(dataset))))
    layers, _ = editable_layers(model, probe)
    return editable_layers(model, probe, parameters=[layer.weight.parameter for layer in layers])[0]


def _moments(
    problem: Problem, model: nn.Module, layers: tuple[Layer, ...], dataset: Dataset, samples: int
) -> dict[str, Moment]:
    """The moments of at most `samples` samples, as many of each class as of any other where there are enough."""
    labels = read_labels(dataset, progress=problem.progress)
    chosen = some_of_each_class(labels, max(1, samples // len(labels.unique())), problem.generator())
    with problem.progress("moments", -(-len(chosen) // _BATCH)) as advance:
        return collect(model, layers, read_batches(dataset, chosen, size=_BATCH), advance=advance)
