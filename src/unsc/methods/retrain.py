"""Train again without what is to be forgotten."""

from __future__ import annotations

from torch import nn

from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method


@method(needs=("retain", "recipe"))
def retrain(problem: Problem) -> nn.Module:
    """Source: the definition of exact unlearning, as in Bourtoule, Chandrasekaran, Choquette-Choo, Jia, Travers,
    Zhang, Lie, Papernot, "Machine Unlearning", IEEE S&P 2021.

    Mechanism: train a new network on the retained samples alone, by the recipe of the original; the reference that
    all other methods are judged by.

    Data: retained.

    Published: the settings of the original training; here all of them belong to the recipe.

    Departures: none. The recipe decides about training mode; the original network is not used.
    """
    return problem.recipe(problem.retain, problem.seed)
