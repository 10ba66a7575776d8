"""Run a method on a problem; what it costs and whether it diverged are part of the result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from unsc.cost import Cost, metered
from unsc.datasets import read, size_of
from unsc.errors import Diverged, EmptyNullSpace, UnsupportedModel
from unsc.logits import logits_of
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import Method, MethodFunction, find
from unsc.models import working_copy
from unsc.result import Forgotten

_PROBED = 256


@dataclass(frozen=True)
class Applied:
    """What a method gave."""

    model: nn.Module | None
    """None if the weights are not finite or the method returned nothing."""
    settings: dict[str, Any]
    cost: Cost
    diverged: str | None
    """Why the method diverged, or None: weights or outputs that are not finite, one class for everything, no free
    direction."""
    noted: dict[str, Any] = field(default_factory=dict)
    """Numbers that the method itself measured, by name: passes, steps, how far retained predictions moved."""


def apply(method: Method | str | MethodFunction, problem: Problem, **given: Any) -> Applied:
    """Carry out `problem` by `method` with the settings `given`, defaults for the rest.

    The method may also be given by its name or as the decorated function.
    """
    if not isinstance(method, Method):
        method = find(method if isinstance(method, str) else getattr(method, "__name__", repr(method)))
    settings = method.settings(given)
    method.check(problem)
    torch.manual_seed(problem.seed)
    given_back, diverged = None, None
    with metered() as cost:
        try:
            given_back = method.run(problem, **settings)
        except (Diverged, EmptyNullSpace, torch.linalg.LinAlgError) as e:  # type: ignore[attr-defined]
            diverged = str(e)
    model, noted = (given_back.model, _numbers(given_back)) if isinstance(given_back, Forgotten) else (given_back, {})
    if model is not None:
        diverged = _divergence(model, problem)
    return Applied(model if _usable(model) else None, settings, cost(), diverged, noted)


def _numbers(result: Forgotten) -> dict[str, Any]:
    """The single values among what a result has measured."""
    return {name: value for name, value in result.metrics.to_dict().items() if isinstance(value, int | float)}


def _usable(model: nn.Module | None) -> bool:
    return model is not None and all(torch.isfinite(p).all() for p in model.parameters())


@torch.no_grad()
def _divergence(model: nn.Module, problem: Problem) -> str | None:
    """Why a network is of no more use, judged by its predictions for some samples of the problem; None if it is."""
    try:
        working = working_copy(model)
    except UnsupportedModel as e:
        return str(e)
    dataset = problem.retain if problem.gives("retain") else problem.forget
    if size_of(dataset) == 0:
        return None
    some = torch.randperm(size_of(dataset), generator=problem.generator())[:_PROBED]
    logits = logits_of(working, batch := read(dataset, some.tolist()).for_model(working))
    if not torch.isfinite(logits).all():
        return "its outputs are NaN or Inf"
    predicted, present = logits.argmax(dim=1).unique(), batch.labels.unique()
    if problem.gives("retain") and len(predicted) == 1 and len(present) > 2:
        return f"collapsed: every retained sample is classified as {predicted.item()}"
    return None
