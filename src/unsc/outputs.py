"""The outputs of forgotten classes: put where a network that never saw the classes has them, or taken away.

Training without a class only ever tells its output that it is too high: in the end it is the lowest of all scores, for
almost every sample. So the new row of a forgotten output is the linear function of what the head is given that comes
nearest to the lowest score of the classes that stay, on retained samples. Nothing in it is from the class itself.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unsc.batches import Batch, pieces
from unsc.errors import InvalidRequest, UnsupportedModel
from unsc.features import Head, find_head, head_inputs
from unsc.layers import Layer, hooked
from unsc.logits import logits_of
from unsc.pooled_head import as_linear, find_pooled_head
from unsc.request import Request
from unsc.ridge import Ridge
from unsc.shards import is_shard, put, whole
from unsc.task import Task
from unsc.wrappers import without_wrappers

_RIDGE, _WITHOUT_BIAS = 1.0, 0.01
"""Of the mean variance of the head's inputs: rows then have about the length that they have in retrained networks.
Without a bias, rows hold the level of the output as well, and that is not to shrink."""


def editable_head(model: nn.Module, layers: Iterable[Layer], batch: Batch) -> Head | None:
    """The layer whose outputs are the logits, if there is one, all of its parameters may be edited and nothing else is
    made with them.

    Its outputs may be averaged or normalised first; a convolution is given as a linear layer in the same memory.
    """
    layers = tuple(layers)
    try:
        head = find_head(model, batch)
    except UnsupportedModel:
        path = find_pooled_head(model, batch)
        if path is None:
            return None
        head = Head(path, linear_at(model, path))
    editable = {name for layer in layers for name in layer.parameters}
    own = {f"{head.path}.{name}" for name, _ in head.layer.named_parameters()}
    return head if own <= editable and _used_once(model, head, layers, batch) else None


@torch.no_grad()
def _used_once(model: nn.Module, head: Head, layers: Sequence[Layer], batch: Batch) -> bool:
    """Whether a pass makes the logits with a head's weights and nothing else, that features would depend on."""
    calls: list[str] = []
    places = {use.module for x in layers if f"{head.path}.weight" in x.parameters for use in x.uses}
    with hooked({path: model.get_submodule(path) for path in places}, lambda call: calls.append(call.path)):
        logits_of(model, batch.for_model(model))
    return len(calls) == 1


def check_droppable(model: nn.Module, head: Head | None, request: Request) -> Head:
    """The head that outputs can be dropped from, or an error that says why there is none."""
    if head is None or not isinstance(model.get_submodule(head.path), nn.Linear):
        raise UnsupportedModel(
            "drop_outputs=True needs a Linear layer that gives the logits themselves, one for each class, and whose "
            "weights may be edited; this model has none (one output for two classes, a head that is no Linear, "
            "weights that are shared, used twice or frozen). Leave drop_outputs out: the outputs then stay, as low as "
            "they go"
        )
    if int(request.stays.sum()) < 2:
        raise InvalidRequest("drop_outputs=True would leave one output, which no classifier has; leave it out")
    return head


@dataclass(frozen=True)
class BeforeHead:
    """What a network's head is given for the samples that a run is judged on.

    Only the head changes when outputs are settled, so one pass up to it serves all looks, before and after.
    """

    head: Head
    """Whole, also if the network is sharded."""
    forgotten: list[Tensor]
    """Of the forgotten samples to check, a batch at a time, (n, units)."""
    retained: list[Tensor]
    """Of the batches of the watch."""

    @classmethod
    def of(cls, task: Task, final: nn.Module, path: str) -> BeforeHead:
        head = Head(path, whole_linear(linear_at(final, path)))

        def given(batches: Iterable[Batch]) -> list[Tensor]:
            return [batch.inputs.to(head.layer.weight) for batch in head_inputs(final, head, batches)]

        return cls(head, given(pieces(task.samples.forget_check)), given(task.watch.batches))

    @torch.no_grad()
    def logits(self, given: Sequence[Tensor]) -> Tensor:
        """What the head makes of it by now, (n, classes)."""
        return torch.cat([self.head.layer(x) for x in given])

    def mass(self, classes: list[int]) -> float:
        """Mean probability of the `classes` on the forgotten samples."""
        return self.logits(self.forgotten).softmax(dim=1)[:, classes].sum(dim=1).mean().item()


@torch.no_grad()
def settled(
    request: Request, result: nn.Module, final: nn.Module, given: BeforeHead, lost: Iterable[int], *, most: float
) -> float | None:
    """Settle the outputs of the classes `lost` in `result`, of which `final` is a working copy.

    Returns the mean probability that they then have on the forgotten samples to check. It is at most `most`: where few
    classes stay, their lowest score is not low, and biases are lowered further. Without a bias, or if `most` is 0,
    which no bias reaches, they are not. Outputs that would not get lower are left as they are: None.
    """
    lost = list(lost)  # a tuple would be an index of several dimensions
    layer, inside = given.head.layer, linear_at(final, given.head.path)
    before, rows = given.mass(lost), copy.deepcopy(layer.state_dict())
    settle(layer, lost, request.stays, torch.cat(given.retained))
    after = given.mass(lost)
    if after > most > 0 and "bias" in rows:
        layer.bias[lost] -= _log_odds(after) - _log_odds(most)
        after = given.mass(lost)
    write_back(layer, inside)
    if not after < before:
        layer.load_state_dict(rows)
        write_back(layer, inside)
        return None
    found = layer.state_dict()
    target = linear_at(without_wrappers(result).inner, given.head.path)
    changed = whole_linear(target)
    for name, parameter in changed.named_parameters():
        parameter[lost] = found[name][lost].to(parameter)
    write_back(changed, target)
    return after


@torch.no_grad()
def settle(layer: nn.Linear, lost: list[int], stays: Tensor, rows: Tensor) -> None:
    """Give the outputs of the classes `lost`, in place, a row that is about the lowest score on retained samples.

    These are given by what the head sees of them, `rows` (n, units). `stays` (classes,) is true for the classes that
    the network still knows.
    """
    lowest = layer(rows)[:, stays.to(rows.device)].min(dim=1, keepdim=True).values.double()
    constant = "bias" in dict(layer.named_parameters())
    row, level = Ridge.of(rows.double(), lowest, constant=constant).solution(_RIDGE if constant else _WITHOUT_BIAS)
    layer.weight[lost] = row.to(layer.weight)
    if constant:
        layer.bias[lost] = level.to(layer.bias)


def _log_odds(p: float) -> float:
    return math.log(p / (1 - p))


def whole_linear(layer: nn.Linear) -> nn.Linear:
    """The layer, or a copy of it that is whole if it is sharded; all ranks must ask for it."""
    if not any(is_shard(p) for p in layer.parameters()):
        return layer
    with torch.device("meta"):
        made = nn.Linear(layer.in_features, layer.out_features, bias="bias" in dict(layer.named_parameters()))
    for name in [name for name, _ in made.named_parameters()]:
        setattr(made, name, nn.Parameter(whole(layer.get_parameter(name)), requires_grad=False))
    return made


def write_back(made: nn.Linear, layer: nn.Linear) -> None:
    """Write what became of a whole copy to the layer itself."""
    if made is not layer:
        for name, p in layer.named_parameters():
            put(made.get_parameter(name), p)


def linear_at(model: nn.Module, path: str) -> nn.Linear:
    """The layer, or, of a convolution that is a head, a linear one in the same memory."""
    found = model.get_submodule(path)
    if isinstance(found, nn.Conv2d):
        return as_linear(found)
    if not isinstance(found, nn.Linear):
        raise UnsupportedModel(f"{path} is a {type(found).__name__} and no Linear layer")
    return found
