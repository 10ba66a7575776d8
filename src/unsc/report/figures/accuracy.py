"""Accuracy by class, all networks side by side."""

from __future__ import annotations

from unsc.report.charts import Series, bars
from unsc.report.figure import Chart, Figure
from unsc.report.request import RequestRun

_MANY = 40
"""Classes, from which on only those that changed most are drawn; the numbers are of all."""


def figure(run: RequestRun) -> Figure | None:
    """None if the folder does not say."""
    if run.seen is None:
        return None
    names, goes = run.seen["class_names"], set(run.seen["forgotten"])
    shown = [
        (one["title"], one["role"], {c["class"]: 100 * c["hits"] / c["samples"] for c in one["classes"]})
        for one in run.networks
    ]
    samples = {c["class"]: c["samples"] for c in run.networks[0]["classes"]}
    classes = sorted(samples)
    drawn = _most_changed(classes, [found for *_, found in shown], goes)
    labels = [f"{names[k]} *" if k in goes else names[k] for k in drawn]
    series = [Series(title, [_round(found.get(k)) for k in drawn], role) for title, role, found in shown]
    rows = [
        (names[k], "goes" if k in goes else "stays", samples[k], *(found.get(k) for *_, found in shown))
        for k in classes
    ]
    data, few = run.seen["data"], f" The {len(drawn)} classes that changed most." if len(drawn) < len(classes) else ""
    note = " Classes with * are to be forgotten." if goes else ""
    return Figure.of(
        "Accuracy by class",
        f"Percent of {data} that each network classifies correctly.{note}{few}",
        [Chart("", bars(labels, series, axis="%", most=100), unit=" %", height=340)],
        ("class", "request", "samples", *(f"{title} (%)" for title, *_ in shown)),
        rows,
        [title for title, *_ in shown],
    )


def _most_changed(classes: list[int], shown: list[dict[int, float]], goes: set[int]) -> list[int]:
    if len(classes) <= _MANY:
        return classes
    first, last = shown[0], shown[-1]
    order = sorted(classes, key=lambda k: (k not in goes, -abs(last.get(k, 0.0) - first.get(k, 0.0))))
    return sorted(order[:_MANY])


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
