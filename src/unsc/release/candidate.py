"""What forgetting must hand over to be judged and released."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from unsc.release.manifest import Resolved
from unsc.release.policy import Figure


@dataclass(frozen=True)
class Made:
    """Weights that may be released, and what is known of them."""

    weights: str
    """SHA-256 of the weights (`storage.hashes.sha256_of_weights`)."""
    figures: Mapping[str, Figure]
    """By the name of a check (`policy.CHECKS`), or any other name."""
    promise: str
    """What was reached, in words."""
    drift: Mapping[str, float]
    """Relative change of each layer's outputs on retained rows."""
    config: Mapping[str, Any]
    """Settings that it was made with."""
    report: Mapping[str, Any]
    """What else is worth telling: the course of the run, accuracy by class. For the report alone."""
    save: Callable[[Path], object]
    """Writes the model into an empty folder."""
    save_store: Callable[[Path], object]
    """Writes the store's files, without what was deleted, into an empty folder (`Contents.save`)."""
    shown: Mapping[str, Any] | None = None
    """What a report shows beside figures and verdicts (`evaluation.side_by_side`)."""


Make: TypeAlias = Callable[[Resolved, Path | None], Made]
"""Forgets what a request comes to, from the model in this folder, or from the one that the store was prepared with
(None: nothing was released yet). Changes neither the store nor any released file."""
