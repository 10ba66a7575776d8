"""How much retained predictions depend on what a layer puts out: the factor b of its curvature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc import peers
from unsc.batches import Batch
from unsc.layers import Layer, Weights
from unsc.logits import logits_of, shared_logits
from unsc.moments import Moment
from unsc.steps.gradients import gradients_of, total_gradients
from unsc.watch import Watch


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
    its samples' summed Fisher traces: no gradient of a single sample is needed, whatever the layer. Batches and
    moments are what this rank has of them.
    """
    weights = Weights(model, layers)
    fisher = dict.fromkeys((x.name for x in layers), 0.0)
    seen = 0
    for batch in batches:
        own = batch[torch.arange(len(batch))[peers.own_part(len(batch))]] if weights.sharded else batch
        if weights.sharded:
            grads = _gradients_of_parts(model, weights, batch, own, watch, generator)
        else:
            grads = _drawn_gradients(model, weights, batch.for_model(model), watch, generator)
        energies = weights.counted({x.name: sum(map(_energy, weights.views(x, grads))) for x in layers})
        fisher = {name: value + energies[name] for name, value in fisher.items()}
        seen += len(own)
    energies = [x.outputs * moments[x.name].trace().sum().item() for x in layers]
    seen, *sums = peers.total_of(seen, *fisher.values(), *energies)
    pairs = zip(sums[: len(layers)], sums[len(layers) :], strict=True)
    # A layer that retained predictions do not depend on at all would be free; keep its cost finite.
    costs = [max(own / seen, 1e-12) / max(energy / samples, 1e-12) for own, energy in pairs]
    return dict(zip(fisher, costs, strict=True))


def _drawn_gradients(
    model: nn.Module, weights: Weights, batch: Batch, watch: Watch, generator: torch.Generator
) -> dict[str, Tensor]:
    """Of the log-probability of labels that are drawn from the network's own predictions."""
    logs = watch.log_probabilities(logits_of(model, batch))
    drawn = _drawn(logs, generator)
    return gradients_of(watch.temperature * F.nll_loss(logs, drawn, reduction="sum"), weights.parameters)


def _gradients_of_parts(
    model: nn.Module, weights: Weights, batch: Batch, own: Batch, watch: Watch, generator: torch.Generator
) -> dict[str, Tensor]:
    """The same for a sharded network, whose ranks each take their `own` part of the batch."""
    drawn = _drawn(watch.log_probabilities(shared_logits(model, batch)), generator)
    chosen = F.one_hot(drawn[peers.own_part(len(batch))], int(watch.kept.sum()))

    def loss(part: Batch, wanted: Tensor) -> Tensor:
        return -watch.temperature * (watch.log_probabilities(logits_of(model, part)) * wanted).sum()

    return total_gradients(model, weights.parameters, loss, own.for_model(model), chosen.double())[1]


def _drawn(logs: Tensor, generator: torch.Generator) -> Tensor:
    """A label for each sample, (n,), by its log-probabilities (n, classes)."""
    return torch.multinomial(logs.detach().exp().cpu(), 1, generator=generator)[:, 0].to(logs.device)


def _energy(tensor: Tensor) -> float:
    """The sum of squares, in float64, of so little at a time that it stays in the processor's cache."""
    return sum(part.double().square().sum().item() for part in tensor.reshape(-1).split(1 << 16))
