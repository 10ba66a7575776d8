"""Squared gradients of single samples, from one backward pass of their whole batch.

The gradient of a weight for one sample is made of what its module was given and of the gradient of what it returned,
and a pass over a batch knows both for every sample. What this cannot do it says by returning None: parameters of other
kinds of modules, modules that are called twice, weights that are also used outside of their module.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.layers import CONVOLUTIONS, windows
from unsc.logits import logits_of

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""A scalar from logits (n, classes) and labels (n,): a sum of what each sample's own logits give."""
Factors: TypeAlias = Iterator[tuple[str, Tensor, Tensor]]
"""A parameter's attribute, and two factors whose product, for each sample, is its gradient: (n, groups, outputs, t) and
(n, groups, t, inputs)."""

_NORMALISATIONS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_KNOWN = (nn.Linear, *CONVOLUTIONS, *_NORMALISATIONS)
_MOST_BYTES = 128 << 20
"""For what is made of single samples at once."""


def sum_of_squares(model: nn.Module, batch: Batch, losses: Iterable[Loss]) -> dict[str, Tensor] | None:
    """The sum over `losses` and samples of the squared gradient of one sample, for each parameter that is not frozen.

    `model` is in evaluation mode, where a sample's output depends on nothing but the sample.
    """
    if not _known(model):
        return None
    parameters = trained(model)
    with torch.enable_grad(), _recorded(model) as calls:
        logits = logits_of(model, batch)
    if not _alone(calls, logits, parameters):
        return None
    total = {name: torch.zeros_like(p) for name, p in parameters.items()}
    for loss in losses:
        value = loss(logits, batch.labels)
        found = torch.autograd.grad(value, [call.shift for call in calls], retain_graph=True, materialize_grads=True)
        for call, gradient in zip(calls, found, strict=True):
            for name, squares in call.sums(gradient, power=2):
                total[name] += squares.reshape(total[name].shape)
    return total


def trained(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are not frozen, by name."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


@dataclass(frozen=True)
class _Call:
    """What a module was given, and zeros that were added to what it returned: their gradient is that of its output."""

    module: nn.Module
    names: dict[str, str]
    """Of its parameters that are not frozen, by attribute."""
    x: Tensor
    shift: Tensor

    def sums(self, gradient: Tensor, power: int) -> Iterator[tuple[str, Tensor]]:
        """The sum of powers of each sample's gradient, by parameter and in pieces, from that of the output.

        With the gradients of a few samples' outputs, (m, ...), it is over the first m samples.
        """
        most = max(1, _MOST_BYTES // self._sample_bytes())
        for x, g in zip(self.x.detach()[: len(gradient)].split(most), gradient.split(most), strict=True):
            for attribute, left, right in _factors(self.module, x, g):
                if attribute not in self.names:
                    continue
                if left.shape[-1] == 1:  # the power of a product of two numbers: single gradients need not be made
                    one, other = (t.pow(power).flatten(2).transpose(0, 1) for t in (left, right))
                    yield self.names[attribute], one.mT @ other
                else:
                    yield self.names[attribute], (left @ right).pow(power).sum(dim=0)

    def _sample_bytes(self) -> int:
        """Of a sample's gradient, and of what it is made of."""
        weights = sum(p.numel() for p in self.module.parameters())
        kernel = math.prod(self.module.kernel_size) if isinstance(self.module, CONVOLUTIONS) else 1
        return (weights + (kernel * self.x.numel() + self.shift.numel()) // len(self.x)) * self.x.element_size()


def _factors(module: nn.Module, x: Tensor, g: Tensor) -> Factors:
    n = len(x)
    if isinstance(module, nn.Linear):
        left, right = g.reshape(n, 1, -1, g.shape[-1]).mT, x.reshape(n, 1, -1, x.shape[-1])
    elif isinstance(module, CONVOLUTIONS):
        seen, dims = windows(module, x), len(module.kernel_size)
        places, kernel = range(2, 2 + dims), range(2 + dims, 2 + 2 * dims)
        left = g.reshape(n, module.groups, module.out_channels // module.groups, -1)
        right = seen.permute(0, 1, *kernel, *places).reshape(n, module.groups, -1, left.shape[-1]).mT
    else:
        assert isinstance(module, _NORMALISATIONS) and module.running_mean is not None
        assert module.running_var is not None
        along = (1, -1, *(1 for _ in x.shape[2:]))
        normal = (x - module.running_mean.view(along)) / (module.running_var.view(along) + module.eps).sqrt()
        left = g.reshape(n, 1, g.shape[1], -1)
        yield "weight", left * normal.reshape(left.shape), left.new_ones(n, 1, left.shape[-1], 1)
        yield "bias", left, left.new_ones(n, 1, left.shape[-1], 1)
        return
    yield "weight", left, right
    yield "bias", left, left.new_ones(*right.shape[:-1], 1)


def _known(model: nn.Module) -> bool:
    """Whether all parameters are those of modules that `_factors` knows.

    A subclass may do something else with its weight, and is another kind of module.
    """
    owners = [m for m in model.modules() if m._parameters]
    return all(type(m) in _KNOWN and getattr(m, "running_var", _KNOWN) is not None for m in owners)


@contextmanager
def _recorded(model: nn.Module) -> Iterator[list[_Call]]:
    calls: list[_Call] = []
    names = {id(p): name for name, p in trained(model).items()}

    def call(module: nn.Module, args: tuple, kwargs: dict[str, Any], output: Tensor) -> Tensor:
        shift = torch.zeros_like(output, requires_grad=True)
        own = {attribute: names[id(p)] for attribute, p in module._parameters.items() if id(p) in names}
        calls.append(_Call(module, own, args[0] if args else next(iter(kwargs.values())), shift))
        return output + shift

    handles = [m.register_forward_hook(call, with_kwargs=True) for m in model.modules() if m._parameters]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _alone(calls: list[_Call], logits: Tensor, parameters: dict[str, nn.Parameter]) -> bool:
    """Whether the calls explain the first sample's gradients: no weight is used elsewhere, or twice, and samples are
    along the first dimension of what modules are given."""
    if any(len(call.x) != len(logits) or len(call.shift) != len(logits) for call in calls):
        return False
    asked = [*(call.shift for call in calls), *parameters.values()]
    found = torch.autograd.grad(logits[0].square().sum(), asked, retain_graph=True, materialize_grads=True)
    ours: dict[str, Tensor] = {}
    for call, gradient in zip(calls, found, strict=False):
        ours |= dict(call.sums(gradient[:1], power=1))  # of two calls one, which is not enough
    for (name, p), theirs in zip(parameters.items(), found[len(calls) :], strict=True):
        difference = theirs - ours[name].reshape(p.shape) if name in ours else theirs
        if difference.abs().max() > 1e-3 * theirs.abs().max():
            return False
    return True
