"""How many channels a layer has at a width multiplier."""

from __future__ import annotations

import math

from unsc.errors import InvalidRequest


def scaled(channels: int, width: float) -> int:
    """`channels` of the full network times `width`, rounded, at least 1."""
    if not (math.isfinite(width) and width > 0):
        raise InvalidRequest(f"the width multiplier is {width}; give a number above 0, where 1 is the full network")
    return max(1, round(channels * width))
