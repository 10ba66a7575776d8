"""The inverse of a curvature, ready for one step after another.

By its eigenvectors the inverse takes two products. Where they are most of a layer's directions, and the layer has not
too few outputs, a matrix that is made once takes one, and is made in less time than it saves in a few steps.
"""

from __future__ import annotations

from torch import Tensor

from unsc.steps.curvature import LayerCurvature, RetainedCurvature
from unsc.steps.factors import LowRank, Matrix

_STEPS = 4
"""Within so many steps a matrix must save what it takes to make it."""


class Inverse:
    """`(b (A + damping I))^-1` of every layer."""

    def __init__(self, curvature: RetainedCurvature) -> None:
        self.curvature = curvature
        self._matrices: dict[str, Tensor] = {}
        """Of layers where they take less time, once they are needed, (groups, columns, columns)."""

    def solve(self, name: str, gradient: Matrix) -> Matrix:
        """`G (b (A + damping I))^-1` for the gradient G of a layer."""
        layer = self.curvature.layers[name]
        if isinstance(gradient, LowRank) or not _takes_less(layer, gradient):
            return layer.solve(gradient)
        if name not in self._matrices:
            self._matrices[name] = layer.inverse()
        return gradient @ self._matrices[name]


def _takes_less(layer: LayerCurvature, gradient: Tensor) -> bool:
    """Whether a matrix does, of the gradient (groups, outputs, columns)."""
    _, outputs, columns = gradient.shape
    return 2 * layer.vectors.shape[2] > columns and _STEPS * outputs >= columns
