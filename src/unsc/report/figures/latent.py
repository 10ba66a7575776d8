"""The map of the features, before and after: what the last layer decides by, in the original's two principal axes."""

from __future__ import annotations

from unsc.report.charts import Series, points
from unsc.report.figure import Chart, Figure
from unsc.report.request import RequestRun


def figure(run: RequestRun) -> Figure | None:
    """None if the folder does not say."""
    if run.seen is None or run.seen["map"] is None:
        return None
    found, names, goes = run.seen["map"], run.seen["class_names"], set(run.seen["forgotten"])
    labels = found["labels"]
    classes = sorted(set(labels), key=lambda k: (k in goes, k))
    titles = {k: f"{names[k]} *" if k in goes else names[k] for k in classes}
    places = [*found["before"], *found["after"]]
    reach = [end for axis in zip(*places, strict=True) for end in _ends(axis)]

    def drawn(when: str) -> list[Series]:
        at = found[when]
        return [
            Series(
                titles[k],
                [place for place, label in zip(at, labels, strict=True) if label == k],
                "gone" if k in goes else k,
            )
            for k in classes
        ]

    share = sum(found["share"])
    note = " Classes with * are to be forgotten." if goes else ""
    return Figure.of(
        "Map of the features",
        f"{len(labels)} samples of the {run.seen['data']} by what the last layer is given, in the plane in which the "
        f"original's features spread most ({100 * share:.0f} % of their variance). Both maps have the same axes, so "
        f"that what did not change stays where it was.{note}",
        [
            Chart("Before", points(drawn("before"), reach=reach), height=380),
            Chart("After", points(drawn("after"), reach=reach), height=380),
        ],
        ("class", "before x", "before y", "after x", "after y"),
        [(names[k], *a, *b) for k, a, b in zip(labels, found["before"], found["after"], strict=True)],
        [titles[k] for k in classes],
    )


def _ends(values: tuple[float, ...]) -> tuple[float, float]:
    """A little beyond the outermost values."""
    low, high = min(values), max(values)
    room = 0.05 * (high - low) or 1.0
    return round(low - room, 3), round(high + room, 3)
