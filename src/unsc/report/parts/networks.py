"""All networks side by side in a table that can be sorted, with the controls marked."""

from __future__ import annotations

from unsc.report.figure import Cell
from unsc.report.html import Badge, paragraph, table
from unsc.report.request import RequestRun, accuracy

HEAD = (
    "retained accuracy (%)",
    "worst class that stays (%)",
    "forgotten, still known (%)",
    "attack (AUC)",
    "drift",
    "seconds",
)


def part(run: RequestRun) -> str:
    """The table; empty if the folder does not hold networks side by side."""
    if run.seen is None:
        return ""
    rows = [
        [Badge(one["title"], mark(one["role"])), *cells] for one, cells in zip(run.networks, values(run), strict=True)
    ]
    note = (
        f"Accuracy on {run.seen['data']}. A control only looks like forgetting: it is here to show what it fools. "
        "Drift is the largest relative change of a layer's outputs on retained samples."
    )
    return paragraph(note, "note") + table("Networks side by side", ("network", *HEAD), rows)


def mark(role: str) -> str:
    """How a role is marked in tables; the original and other methods are not."""
    return {"control": "control", "result": "ours", "retrained": "retrained"}.get(role, "")


def values(run: RequestRun) -> list[tuple[Cell, ...]]:
    """A row for each network, in the order of `HEAD`."""
    goes = set(run.seen["forgotten"]) if run.seen is not None else set()
    rows: list[tuple[Cell, ...]] = []
    for one in run.networks:
        worst = [100 * c["hits"] / c["samples"] for c in one["classes"] if c["class"] not in goes]
        rows.append(
            (
                accuracy(one, goes, inside=False),
                min(worst, default=None),
                100 * one["went"]["known"] / one["went"]["samples"],
                one["membership"] and one["membership"]["auc"],
                one["drift"],
                one["seconds"],
            )
        )
    return rows
