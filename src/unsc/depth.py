"""Which layers move: all of them, or the deeper ones.

What a network learned by heart is in its last layers. Its first ones see training samples as they see any others, and
a rule for targets may leave them as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import nn

from unsc.batches import Batch
from unsc.coverage import in_order_of_use
from unsc.layers import Layer
from unsc.targets import TargetRule

_FEWEST = 4
"""Layers that move in any case, if there are as many: in a small network none is far from what it decides."""


def moving(
    model: nn.Module, layers: tuple[Layer, ...], frozen: dict[str, str], rule: TargetRule, probe: Batch
) -> tuple[tuple[Layer, ...], dict[str, str]]:
    """The layers that a rule for targets moves, and all parameters that stay as they are, with reasons."""
    if rule.moves >= 1:
        return layers, frozen
    chosen = deeper(model, layers, rule.moves, probe)
    left = [name for x in layers if x not in chosen for name in x.parameters]
    return chosen, frozen | dict.fromkeys(left, f"targets={rule.name!r} moves the deeper layers alone")


def deeper(model: nn.Module, layers: Sequence[Layer], share: float, probe: Batch) -> tuple[Layer, ...]:
    """The `share` of the layers that `model` uses last, on samples such as `probe`; in their own order."""
    place = {path: i for i, path in enumerate(in_order_of_use(model, probe))}
    first_use = {x.name: min((place.get(use.module, 0) for use in x.uses), default=0) for x in layers}
    count = max(_FEWEST, math.ceil(share * len(layers)))
    last = sorted(layers, key=lambda x: first_use[x.name])[-count:]
    return tuple(x for x in layers if x in last)
