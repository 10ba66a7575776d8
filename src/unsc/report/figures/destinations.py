"""Where forgotten samples went: what each network calls them, beside what retraining calls them."""

from __future__ import annotations

from unsc.report.charts import Series, bars
from unsc.report.figure import Chart, Figure
from unsc.report.request import RequestRun

_MOST = 24
"""Classes that are drawn: those that are called most often by some network."""


def figure(run: RequestRun) -> Figure | None:
    """None if the folder does not say."""
    if run.seen is None:
        return None
    names, goes, went = run.seen["class_names"], set(run.seen["forgotten"]), run.networks[0]["went"]
    shares = {one["title"]: [100 * n / one["went"]["samples"] for n in one["went"]["to"]] for one in run.networks}
    highest = [max(of_class) for of_class in zip(*shares.values(), strict=True)]
    called = [k for k, share in enumerate(highest) if share > 0]
    drawn = sorted(sorted(called, key=lambda k: -highest[k])[:_MOST])
    series = [
        Series(one["title"], [round(shares[one["title"]][k], 2) for k in drawn], one["role"]) for one in run.networks
    ]
    labels = [f"{names[k]} *" if k in goes else names[k] for k in drawn]
    retrained = run.network("retrained")
    beside = (
        " Retraining never saw the class: what it calls the samples is what to expect."
        if retrained is not None
        else " No retrained network is known here, so there is nothing to hold this against."
    )
    what = "Records" if run.kind == "records" else f"Samples of {run.what}"
    return Figure.of(
        "Where forgotten samples went",
        f"{what} ({went['samples']}, {went['data']}) by the class that each network gives them, in percent.{beside}",
        [Chart("", bars(labels, series, axis="%"), unit=" %", height=320)],
        ("called", *(f"{title} (%)" for title in shares)),
        [(names[k], *(of_network[k] for of_network in shares.values())) for k in called],
        list(shares),
    )
