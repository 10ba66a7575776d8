"""The numbers that the paper reports, to stand beside ours.

Source: Chen, Zhu, Yu, Zhou, "Machine Unlearning via Null Space Calibration", IJCAI 2024. `paper.json` beside this file
holds, of each of its tables and data sets, mean and standard deviation over three trials of test accuracy in percent,
first on what is retained (Acc_rt), then on what is forgotten (Acc_ut). Rows have the names of our methods: the paper's
"RL" is `relabel`, "BU" is `boundary_shrink` (it does not say which of the two rules of Boundary Unlearning it used),
"UNSC" is `unsc_paper`. In the ablation, III are random labels alone, IV random labels in the null space.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Reported:
    """A row of a table of the paper; mean and standard deviation in percent."""

    retain: tuple[float, float]
    forget: tuple[float, float]


def reported(table: str, *where: str) -> Reported | None:
    """What the paper reports in `table` (`table1`, `ablation`, `multiclass`) under these keys, if it does."""
    try:
        return row(table, *where)
    except KeyError:
        return None


def row(table: str, *where: str) -> Reported:
    """The same for keys that the paper has."""
    retain, forget = _under(table, *where)
    return Reported(tuple(retain), tuple(forget))


def keys(table: str, *where: str) -> tuple[str, ...]:
    """What a table has under these keys, in its order: rows, or what they are grouped by."""
    return tuple(_under(table, *where))


def data_sets() -> tuple[str, ...]:
    """The paper's data sets, in its order."""
    return tuple(_tables()["table1"])


def _under(table: str, *where: str) -> Any:
    found: Any = _tables()[table]
    for key in where:
        found = found[key]
    return found


@cache
def _tables() -> dict[str, Any]:
    return json.loads((files("unsc.bench") / "paper.json").read_text())
