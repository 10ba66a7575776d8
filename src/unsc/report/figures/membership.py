"""Membership: how well a loss tells forgotten training samples from samples that no network saw."""

from __future__ import annotations

from unsc.report.charts import Series, lines
from unsc.report.figure import Chart, Figure
from unsc.report.request import RequestRun


def figure(run: RequestRun) -> Figure | None:
    """None if the folder does not say."""
    known = [(one, one["membership"]) for one in run.networks if one["membership"] is not None]
    if run.seen is None or not known:
        return None
    titles = {one["name"]: f"{one['title']} ({curve['auc']:.2f})" for one, curve in known}
    series = [
        Series(titles[one["name"]], list(zip(curve["fpr"], curve["tpr"], strict=True)), one["role"])
        for one, curve in known
    ]
    chance = Series("Chance (0.50)", [(0, 0), (1, 1)], "chance", dashed=True)
    rows = [(one["title"], x, y) for one, curve in known for x, y in zip(curve["fpr"], curve["tpr"], strict=True)]
    counts = known[0][1]
    return Figure.of(
        "Membership",
        f"An attack that takes samples of low loss for training data: {counts['members']} forgotten training samples "
        f"against {counts['others']} samples of the same classes in the {run.seen['data']}. The area under a curve is "
        "in brackets. On the diagonal the attack learns nothing; a curve below it tells as much as one above.",
        [
            Chart(
                "", lines([*series, chance], below="others taken for training data", axis="found", square=1), height=400
            )
        ],
        ("network", "false positive rate", "true positive rate"),
        rows,
        [*titles.values(), chance.name],
    )
