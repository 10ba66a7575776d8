"""Squared gradients of single samples, from one backward pass of their whole batch.

The gradient of a weight for one sample is made of what its module was given and of the gradient of what it returned,
and a pass over a batch knows both for every sample. What this cannot do it says by returning None: parameters of other
kinds of modules, modules that are called twice, weights that are also used outside of their module.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.layers import Call, Factored, Factors, hooked, kind_of
from unsc.logits import logits_of

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""A scalar from logits (n, classes) and labels (n,): a sum of what each sample's own logits give."""

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
"""They have no null space to edit in, so they are no kind of layer; their gradients are known all the same."""


def sum_of_squares(
    model: nn.Module, batch: Batch, losses: Iterable[Loss], *, chunk_bytes: int = 128 << 20
) -> dict[str, Tensor] | None:
    """The sum over `losses` and samples of the squared gradient of one sample, for each parameter that is not frozen.

    `model` is in evaluation mode, where a sample's output depends on nothing but the sample. `chunk_bytes` is for what
    is made of single samples at once.
    """
    owners = {path: m for path, m in model.named_modules() if any(True for _ in m.parameters(recurse=False))}
    known = {path: _known(m) for path, m in owners.items()}
    rules = {path: rule for path, rule in known.items() if rule is not None}
    if len(rules) < len(owners):
        return None
    parameters = trained(model)
    with torch.enable_grad(), _recorded(owners, rules, parameters) as calls:
        logits = logits_of(model, batch)
    if not _alone(calls, logits, parameters, chunk_bytes):
        return None
    total = {name: torch.zeros_like(p) for name, p in parameters.items()}
    for loss in losses:
        value = loss(logits, batch.labels)
        found = torch.autograd.grad(value, [call.shift for call in calls], retain_graph=True, materialize_grads=True)
        for call, gradient in zip(calls, found, strict=True):
            for name, squares in call.sums(gradient, power=2, chunk_bytes=chunk_bytes):
                total[name] += squares.reshape(total[name].shape)
    return total


def trained(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are not frozen, by name."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


@dataclass(frozen=True)
class _Rule:
    """How the gradients of one module's parameters follow from its input and from the gradient of its output."""

    factors: Callable[[Tensor, Tensor], Factors]
    overlap: int
    """How often an entry of the input occurs in the factors, at most."""


def _known(module: nn.Module) -> _Rule | None:
    """The rule of this very class: a subclass may do something else with its weight."""
    if isinstance(module, _BATCH_NORMS):
        return _of_batch_norm(module) if type(module) in _BATCH_NORMS else None
    kind = kind_of(module)
    if isinstance(kind, Factored) and type(module) in kind.modules():
        return _Rule(partial(kind.factors, module), kind.overlap(module))
    return None


def _of_batch_norm(module: nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d) -> _Rule | None:
    """In evaluation mode a batch norm scales and shifts what its running statistics have normalised."""
    mean, var, eps = module.running_mean, module.running_var, module.eps
    if mean is None or var is None:
        return None

    return _Rule(partial(_normalised, mean, var, eps), overlap=1)


def _normalised(mean: Tensor, var: Tensor, eps: float, x: Tensor, gradient: Tensor) -> Factors:
    n, along = len(x), (1, -1, *(1 for _ in x.shape[2:]))
    normal = (x - mean.view(along)) / (var.view(along) + eps).sqrt()
    left = gradient.reshape(n, 1, gradient.shape[1], -1)
    ones = left.new_ones(n, 1, left.shape[-1], 1)
    yield "weight", left * normal.reshape(left.shape), ones
    yield "bias", left, ones


@dataclass(frozen=True)
class _Recorded:
    """What a module was given, and zeros that were added to what it returned: their gradient is that of its output."""

    rule: _Rule
    names: dict[str, str]
    """Of its parameters that are not frozen, by attribute."""
    weights: int
    """How many numbers its parameters have."""
    x: Tensor
    shift: Tensor

    def sums(self, gradient: Tensor, *, power: int, chunk_bytes: int) -> Iterator[tuple[str, Tensor]]:
        """The sum of powers of each sample's gradient, by parameter and in pieces, from that of the output.

        With the gradients of a few samples' outputs, (m, ...), it is over the first m samples.
        """
        most = max(1, chunk_bytes // self._sample_bytes())
        for x, g in zip(self.x.detach()[: len(gradient)].split(most), gradient.split(most), strict=True):
            for attribute, left, right in self.rule.factors(x, g):
                if attribute not in self.names:
                    continue
                if left.shape[-1] == 1:  # the power of a product of two numbers: single gradients need not be made
                    one, other = (t.pow(power).flatten(2).transpose(0, 1) for t in (left, right))
                    yield self.names[attribute], one.mT @ other
                else:
                    yield self.names[attribute], (left @ right).pow(power).sum(dim=0)

    def _sample_bytes(self) -> int:
        """Of a sample's gradient, and of what it is made of."""
        factors = (self.rule.overlap * self.x.numel() + self.shift.numel()) // len(self.x)
        return (self.weights + factors) * self.x.element_size()


@contextmanager
def _recorded(
    owners: Mapping[str, nn.Module], rules: Mapping[str, _Rule], parameters: Mapping[str, nn.Parameter]
) -> Generator[list[_Recorded]]:
    """The calls of `owners`, modules by path, while this is active."""
    calls: list[_Recorded] = []
    names = {id(p): name for name, p in parameters.items()}

    def receive(call: Call[Any]) -> Tensor:
        shift = torch.zeros_like(call.output, requires_grad=True)
        own = dict(call.module.named_parameters(recurse=False))
        trained_here = {attribute: names[id(p)] for attribute, p in own.items() if id(p) in names}
        weights = sum(p.numel() for p in own.values())
        calls.append(_Recorded(rules[call.path], trained_here, weights, call.first, shift))
        return call.output + shift

    with hooked(owners, receive):
        yield calls


def _alone(calls: list[_Recorded], logits: Tensor, parameters: Mapping[str, nn.Parameter], chunk_bytes: int) -> bool:
    """Whether the calls explain the first sample's gradients: no weight is used elsewhere, or twice, and samples are
    along the first dimension of what modules are given."""
    if any(len(call.x) != len(logits) or len(call.shift) != len(logits) for call in calls):
        return False
    asked = [*(call.shift for call in calls), *parameters.values()]
    found = torch.autograd.grad(logits[0].square().sum(), asked, retain_graph=True, materialize_grads=True)
    ours: dict[str, Tensor] = {}
    for call, gradient in zip(calls, found, strict=False):
        ours |= dict(call.sums(gradient[:1], power=1, chunk_bytes=chunk_bytes))  # of two calls one: not enough
    for (name, p), theirs in zip(parameters.items(), found[len(calls) :], strict=True):
        difference = theirs - ours[name].reshape(p.shape) if name in ours else theirs
        if difference.abs().max() > 1e-3 * theirs.abs().max():
            return False
    return True
