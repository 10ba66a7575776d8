"""The paper's subspaces as one would write them down: all patches in a matrix, and `numpy.linalg.svd`.

It shares no code with the package, so that it is an oracle as well as what our time is held against.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

Matrix = NDArray[Any]


def layers_of(model: nn.Module) -> dict[str, nn.Module]:
    """Linear layers and convolutions by path."""
    return {name: m for name, m in model.named_modules() if isinstance(m, nn.Conv2d | nn.Linear)}


@torch.no_grad()
def patch_matrices(model: nn.Module, modules: Mapping[str, nn.Module], images: Sequence[Tensor]) -> dict[str, Tensor]:
    """What each of some layers multiplies by, (rows, columns), for images in batches; no groups."""
    found: dict[str, list[Tensor]] = {}

    def note(name: str, module: nn.Module, inputs: tuple[Tensor, ...], _: Tensor) -> None:
        x = inputs[0]
        if isinstance(module, nn.Conv2d):
            options: dict[str, Any] = {n: getattr(module, n) for n in ("dilation", "padding", "stride")}
            x = F.unfold(x, tuple(module.kernel_size), **options).transpose(1, 2)
        x = x.reshape(-1, x.shape[-1])
        ones = [] if module.bias is None else [torch.ones(len(x), 1)]
        found.setdefault(name, []).append(torch.cat([x, *ones], dim=1))

    handles = [m.register_forward_hook(partial(note, name)) for name, m in modules.items()]
    for batch in images:
        model(batch)
    for handle in handles:
        handle.remove()
    return {name: torch.cat(parts) for name, parts in found.items()}


def basis(rows: Matrix, energy: float) -> Matrix:
    """The leading right singular vectors (columns, r) that hold the share `energy`."""
    _, values, vectors = np.linalg.svd(rows, full_matrices=False)
    held = np.cumsum(values**2) >= energy * np.sum(values**2)
    return vectors[: int(np.argmax(held)) + 1].T


def merged(bases: Sequence[Matrix], energy: float) -> Matrix:
    """The leading left singular vectors of the bases beside each other."""
    return basis(np.concatenate(bases, axis=1).T, energy)


def distance(one: Matrix, other: Matrix) -> float:
    """The largest singular value of the difference of two projectors; 1 if their ranks differ.

    For spaces of equal dimension it is the sine of their largest angle.
    """
    if one.shape[1] != other.shape[1]:
        return 1.0
    rest = other - one @ (one.T @ other)
    return float(np.linalg.norm(rest, ord=2))


def subspaces(by_class: Sequence[Mapping[str, Tensor]], energy: float, merge_energy: float) -> dict[str, Matrix]:
    """The retained basis of each layer, from the patch matrices of each class, in their precision."""
    return {
        name: merged([basis(rows[name].numpy(), energy) for rows in by_class], merge_energy) for name in by_class[0]
    }
