"""How quickly the forgotten is learned again: knowledge that is only hidden comes back from a few samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch, join, pieces
from unsc.errors import InvalidRequest, UnsupportedModel
from unsc.evaluation.shared.case import Case
from unsc.evaluation.shared.metrics import Metric, Value, measures
from unsc.evaluation.shared.shares import share
from unsc.features import find_last_linear, inputs_of_layers
from unsc.logits import logits_of
from unsc.methods.shared.training import descend
from unsc.models import working_copy

SAMPLES = {"relearn_0": 0, "relearn_10": 10, "relearn_100": 100, "relearn_full": None}
"""How many labelled forgotten training samples the attacker has; None for all."""
STEPS, LEARNING_RATE, MOMENTUM, HALF = 10, 0.002, 0.9, 32
"""The attacker's SGD, each step on `HALF` forgotten and `HALF` retained samples drawn with replacement. It is weak on
purpose: in ten steps, networks that know the class recover most of it (the digits CNN, AlexNet, ResNet-20), and
networks that never saw it learn little or nothing."""


class WithNewHead(nn.Module):
    """A copy of a network with a new last layer on the features that its own last layer gets.

    Whatever the network does with its scores afterwards (masks, offsets) has no effect any more. The new layer keeps
    the rows of classes that stay; those of the forgotten `classes` are zero, with the others' mean bias.
    """

    def __init__(self, model: nn.Module, classes: tuple[int, ...], few: Batch, num_classes: int) -> None:
        super().__init__()
        self.network = working_copy(model)
        head = find_last_linear(self.network, few, num_classes)
        self._path, old = head.path, head.layer
        gone = torch.tensor([k in classes for k in range(num_classes)], device=old.weight.device)
        bias = old.weight.new_zeros(num_classes) if old.bias is None else old.bias.detach()
        self.weight = nn.Parameter(old.weight.detach().masked_fill(gone[:, None], 0))
        self.bias = nn.Parameter(torch.where(gone, bias[~gone].mean(), bias))
        for parameter in self.parameters():  # an attacker does not care what the owner froze
            if parameter.is_floating_point():
                parameter.requires_grad_(True)

    def forward(self, batch: Batch) -> Tensor:
        with inputs_of_layers(self.network, [self._path]) as seen:
            logits_of(self.network, batch)
        features = seen[self._path]
        if features.dim() != 2:
            raise UnsupportedModel(
                f"the last layer {self._path} gets inputs of shape {tuple(features.shape)}; relearning needs one row "
                "for each sample"
            )
        return F.linear(features, self.weight, self.bias)


def draw(labels: Tensor, wanted: int, *, seed: int) -> Tensor:
    """`wanted` positions (k,) of `labels` (n,), or all n if there are fewer: one of each class in turn."""
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    shuffled = labels[order]
    turn = torch.zeros_like(order)
    for k in shuffled.unique().tolist():
        of_class = shuffled == k
        turn[of_class] = torch.arange(int(of_class.sum()))
    return order[turn.argsort(stable=True)][:wanted]


def relearned(attacked: WithNewHead, forget: Batch, retain: Batch, *, seed: int) -> WithNewHead:
    """Train all weights of `attacked`, in place, on these forgotten and retained samples."""
    generator = torch.Generator().manual_seed(seed)

    def batches() -> Iterator[Batch]:
        for _ in range(STEPS):
            yield join([b[torch.randint(len(b), (HALF,), generator=generator)] for b in (forget, retain)])

    def loss(batch: Batch) -> Tensor:
        return F.cross_entropy(attacked(batch), batch.labels)

    descend(attacked, batches(), loss, lr=LEARNING_RATE, momentum=MOMENTUM)
    return attacked


@torch.no_grad()
def _recognised(attacked: WithNewHead, batch: Batch) -> Tensor:
    """Which samples are classified correctly, bool (n,)."""
    on_device = (piece.for_model(attacked) for piece in pieces(batch))
    return torch.cat([attacked(piece).argmax(dim=1) == piece.labels for piece in on_device]).cpu()


def _attack(case: Case, model: nn.Module, wanted: int | None) -> tuple[Tensor, dict[str, int]]:
    """Which forgotten test samples the attacker's model recognises, bool (n,), and what it was trained on."""
    forget, retain = case.parts["forget_train"], case.parts["retain_train"]
    attacked = WithNewHead(model, case.classes, case.parts["forget_test"][torch.arange(1)], case.num_classes)
    number = len(forget) if wanted is None else min(wanted, len(forget))
    used = {"forget": 0, "retain": 0}
    if number > 0:
        # At least one retained sample of each class, or the attacker would unlearn the classes that are left out.
        others = draw(retain.labels.cpu(), max(number, len(retain.labels.unique())), seed=case.seed)
        chosen = draw(forget.labels.cpu(), number, seed=case.seed)
        relearned(attacked, forget[chosen], retain[others], seed=case.seed)
        used = {"forget": len(chosen), "retain": len(others)}
    return _recognised(attacked, case.parts["forget_test"]), used


def _about(samples: str) -> str:
    return (
        f"Accuracy on forgotten test samples after an attacker with {samples} and about as many retained ones puts a "
        "new last layer on the network and fine-tunes it for a few steps; whole classes only."
    )


@measures(
    Metric("relearn_0", "relearn 0", "reference", "%", _about("no forgotten samples")),
    Metric("relearn_10", "relearn 10", "reference", "%", _about("10 forgotten training samples")),
    Metric("relearn_100", "relearn 100", "reference", "%", _about("100 forgotten training samples")),
    Metric("relearn_full", "relearn full", "reference", "%", _about("all forgotten training samples")),
)
def relearning(case: Case) -> dict[str, Value]:
    """Every detail has the samples that were used, and the curve of the judged and of the retrained model."""
    if case.request.kind == "records":
        raise InvalidRequest("relearning is for whole classes only; leave it out for records")
    hits: dict[str, Tensor] = {}
    details: dict[str, dict[str, Any]] = {}
    for name, wanted in SAMPLES.items():
        hits[name], used = _attack(case, case.model, wanted)
        details[name] = {"samples": used}
    curve = {name: share(h).value for name, h in hits.items()}
    reference = None
    if case.retrained is not None:
        reference = {name: share(_attack(case, case.retrained, n)[0]).value for name, n in SAMPLES.items()}
    curves = {"curve": curve, "retrained_curve": reference}
    return {name: share(hits[name], details[name] | curves) for name in SAMPLES}
