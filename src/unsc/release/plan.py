"""Which samples and rows statistics are made from: a function of a sample's id and a salt, and of nothing else.

So the share of a deleted sample can be computed again from that sample alone, whatever else was deleted before it, and
no list of samples is kept for it.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from unsc.layers import Draw, Layer

Role: TypeAlias = Literal["fit", "check", "none"]
"""What a sample's rows are a part of: the moments to fit, those to check, or neither."""


@dataclass(frozen=True)
class Plan:
    """Which samples and rows to take."""

    salt: str
    """Drawn once, when a store is prepared."""
    fit: tuple[float, ...]
    """Share of each class's samples to fit, 0 to 1."""
    check: tuple[float, ...]
    """Share of each class's samples to check; with the share to fit at most 1."""
    sensitivity: float
    """Share of the samples to check whose gradients are taken as well."""
    samples: tuple[int, int]
    """About how many samples these shares are, to fit and to check: what rows are budgeted for."""
    rows_per_column: int
    """Rows that a moment is made from, for each of its columns, in all samples together."""

    def role(self, id_: str, label: int) -> Role:
        u = self.uniform(id_, "role")
        if u < self.fit[label]:
            return "fit"
        return "check" if u < self.fit[label] + self.check[label] else "none"

    def takes_gradient(self, id_: str) -> bool:
        """Of a sample to check."""
        return self.uniform(id_, "gradient") < self.sensitivity

    def uniform(self, id_: str, purpose: str) -> float:
        """From 0 to 1, 1 excluded."""
        return (self._number(id_, purpose) >> 11) / (1 << 53)

    def generator(self, id_: str, purpose: str) -> torch.Generator:
        return torch.Generator().manual_seed(self._number(id_, purpose) >> 1)

    def draw(self, layer: Layer, rows: int, ids: tuple[str, ...], role: Role) -> Draw | None:
        """Some of the rows of a call on samples with these `ids`, each sample's own; None for all of them.

        A sample's positions are cut into runs of equal length, up to one, and one of each run is drawn. A row that
        stands for a run of m rows is multiplied by the root of m, so that the expected moment is that of all rows.
        """
        positions = rows // len(ids)
        planned = self.samples[0 if role == "fit" else 1]
        count = max(1, math.ceil(self.rows_per_column * layer.columns / max(planned, 1)))
        if count >= positions:
            return None
        edges = torch.arange(count + 1) * positions // count
        length = edges.diff()
        drawn = [edges[:-1] + (self._uniforms(id_, layer.name, count) * length).long() for id_ in ids]
        chosen = torch.cat([i * positions + own for i, own in enumerate(drawn)])
        return Draw(chosen, length.double().sqrt().repeat(len(ids)))

    def _uniforms(self, id_: str, purpose: str, count: int) -> Tensor:
        return torch.rand(count, generator=self.generator(id_, f"rows/{purpose}"), dtype=torch.float64)

    def _number(self, id_: str, purpose: str) -> int:
        """64 bits; lengths are part of what is hashed, so that no two pairs look the same."""
        text = f"{len(purpose)}/{purpose}/{id_}"
        return int.from_bytes(hashlib.sha256(f"{self.salt}/{text}".encode()).digest()[:8], "big")


def plan_for(
    counts: tuple[int, ...], salt: str, *, fit: int, check: int, sensitivity: int, rows_per_column: int
) -> Plan:
    """Shares that take about so many samples of data with these class counts, all classes alike where they can.

    At least a fifth of a class is left to check.
    """
    classes = sum(1 for n in counts if n)
    to_check = [min(0.2, check / classes / n) if n else 0.0 for n in counts]
    to_fit = [min(1 - c, fit / classes / n) if n else 0.0 for c, n in zip(to_check, counts, strict=True)]
    planned = tuple(round(sum(s * n for s, n in zip(p, counts, strict=True))) for p in (to_fit, to_check))
    share = min(1.0, sensitivity / max(planned[1], 1))
    return Plan(salt, tuple(to_fit), tuple(to_check), share, (planned[0], planned[1]), rows_per_column)
