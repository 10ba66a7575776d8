"""Layer by layer: how many directions of its inputs a guide holds, what its steps spent, and how far it drifted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unsc.steps.curvature import RetainedCurvature
from unsc.steps.rule import Guide, Step
from unsc.steps.subspace import NullSpace, NullSpaces


@dataclass(frozen=True)
class LayerFigures:
    """What is known of one layer."""

    held: float | None
    """Directions of its inputs that the guide keeps steps away from: the rank of the retained basis, or the effective
    rank of the curvature. None if the guide does not say."""
    columns: int | None
    """How many directions there are."""
    spent: float | None
    """What its steps were predicted to cost by themselves, in nats of retained KL; None if nothing predicts it."""
    drift: float
    """Relative change of its outputs on retained rows."""


def figures_of(guide: Guide, step: Step, drift: Mapping[str, float]) -> dict[str, LayerFigures]:
    """The figures of each layer in `drift`."""
    held = held_by(guide)
    return {
        name: LayerFigures(*held.get(name, (None, None)), step.spent_by_layer.get(name), drift[name]) for name in drift
    }


def held_by(guide: Guide) -> dict[str, tuple[float, int]]:
    """For each layer the directions that a guide holds, and how many there are; nothing of guides from elsewhere.

    A curvature with eigenvalues a holds `sum a / (a + damping)` directions: those that are dear count 1, free ones 0.
    Of several null spaces, one for each label of records, it is the mean.
    """
    if isinstance(guide, RetainedCurvature):
        return {
            name: ((x.values / (x.values + x.damping)).sum().item(), x.values.shape[0] * x.vectors.shape[1])
            for name, x in guide.layers.items()
        }
    if isinstance(guide, NullSpace):
        return {name: (float(sum(guide.ranks[name])), u.shape[0] * u.shape[1]) for name, u in guide.bases.items()}
    if isinstance(guide, NullSpaces):
        each = [held_by(space) for space in guide.values()]
        return {
            name: (sum(one[name][0] for one in each) / len(each), columns) for name, (_, columns) in each[0].items()
        }
    return {}
