"""Fisher forgetting: noise in the weights that retained predictions hardly depend on."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unsc.datasets import read, read_batches, size_of
from unsc.errors import InvalidRequest
from unsc.features import find_head
from unsc.methods.shared.importance import true_fisher
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.search import Range

_BATCH = 64
_MOST, _MOST_IN_HEAD = 1e3, 1e2
"""Limits of 1 / F, which has no bound where F is 0."""
_LOUDER = 10.0
"""Factor on the variance in the head and of all one-dimensional parameters."""
_FORGOTTEN = 1e-4
"""Variance of the noise that replaces a forgotten class's weights, before `_LOUDER`."""


@method(needs=("retain",), search={"alpha": Range(1e-9, 1e-4, log=True)})
def fisher(problem: Problem, *, alpha: float = 1e-6, power: float = 1.0, samples: int = 256) -> nn.Module:
    """Source: Golatkar, Achille, Soatto, "Eternal Sunshine of the Spotless Net: Selective Forgetting in Deep
    Networks", CVPR 2020.

    Mechanism: adds Gaussian noise to every weight, of a variance that falls with the weight's Fisher information on
    retained data; a forgotten class's weights in the last layer are replaced by noise.

    Data: retained.

    Published: the authors' code has the variance alpha / (F + 1e-8) with alpha = 1e-6, where F is the diagonal of the
    true Fisher information (labels from the network, not from the data), 1 / F is limited to 1,000 (100 in the last
    layer) and averaged over each unit's inputs, and biases, normalisation and the last layer get ten times the
    variance. The paper derives a standard deviation in proportion to F^(-1/4), a variance of alpha F^(-1/2).

    Departures: F is taken from at most `samples` retained samples instead of all, for time. The last layer is the one
    that returns the logits, not every parameter with as many rows as there are classes. `power` is that of 1 / F: 1 is
    the code's, 0.5 the paper's. For records no class's weights are replaced, as in the authors' code.
    """
    if alpha < 0 or power < 0:
        raise InvalidRequest(f"alpha={alpha}, power={power}; allowed are numbers of at least 0")
    model = problem.copy()
    size = size_of(problem.retain)
    drawn = torch.randperm(size, generator=problem.generator())[:samples]
    with problem.progress("Fisher information", -(-len(drawn) // _BATCH)) as advance:
        information = true_fisher(model, read_batches(problem.retain, drawn, size=_BATCH), advance)
    head = find_head(model, read(problem.retain, [0]))
    of_head = {id(p) for p in head.layer.parameters()}
    forgotten = list(problem.classes)
    generator = problem.generator()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name not in information:  # frozen by the user
                continue
            in_head = id(p) in of_head
            limit = _MOST_IN_HEAD if in_head else _MOST
            variance = alpha * inverse(information[name], power=power, limit=limit)
            if in_head and forgotten:
                p[forgotten] = 0
                variance[forgotten] = _FORGOTTEN
            loud = _LOUDER if in_head or p.dim() == 1 else 1.0
            p += (loud * variance).sqrt() * torch.randn(p.shape, generator=generator).to(p)
    return model


def inverse(information: Tensor, *, power: float, limit: float) -> Tensor:
    """`min(1 / F, limit)^power`, averaged over dimension 1 where there is one, in the shape of F."""
    inverted = (1 / (information + 1e-8)).clamp(max=limit) ** power
    return inverted.mean(dim=1, keepdim=True).expand_as(inverted).clone() if inverted.dim() > 1 else inverted
