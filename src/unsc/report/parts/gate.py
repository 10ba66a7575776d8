"""A light for each gate: what was measured against its limit. Without a store, against the default policy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from unsc.release.policy import CHECKS, Figure, Policy, Verdict
from unsc.report.html import text
from unsc.report.request import RequestRun, accuracy

_TITLES = {
    "forget_acc": "Forgotten",
    "record_distance": "Records as unseen",
    "attack": "Membership attack",
    "revived": "Earlier requests",
    "copies_left": "Copies that stay",
    "retain_drop": "Retained accuracy",
    "worst_class_drop": "Worst class",
    "retained_kl": "Retained predictions",
}

_ABOUT = {"worst_class_drop": "accuracy that the retained class which lost most has lost"}
"""Where a check's own words lean on those before it."""


@dataclass(frozen=True)
class Light:
    """One check."""

    check: str
    state: str
    """`good`, `bad`, or `open` if nothing was measured."""
    value: float | None
    limit: float
    unit: str
    source: str
    advice: str


def lights(run: RequestRun) -> list[Light]:
    """One for each check that is about this kind of request."""
    given = (run.judged or {}).get("verdicts") or (run.receipt or {}).get("verdicts")
    if given:
        found = {one["check"]: Verdict(**one) for one in given}
        limits = _limits(run.receipt)
    else:
        measured = figures(run)
        policy = Policy(required=())
        kind = "records" if run.kind == "records" else "classes"
        found = {one.check: one for one in policy.judge(measured, kind)}
        limits = policy.limits
    return [
        _light(check.name, check.unit, found.get(check.name), limits) for check in CHECKS if run.kind in check.kinds
    ]


def _limits(receipt: Mapping[str, Any] | None) -> Mapping[str, float]:
    if receipt is None:
        return Policy().limits
    return Policy.from_dict(receipt["policy"]["values"], "the receipt").limits


def _light(name: str, unit: str, verdict: Verdict | None, limits: Mapping[str, float]) -> Light:
    if verdict is None:
        return Light(name, "open", None, limits[name], unit, "not measured", "")
    state = "good" if verdict.passed else "bad"
    value = None if verdict.measured is None else float(verdict.measured)  # files of a store have NaN as a word
    return Light(name, state, value, verdict.limit, unit, verdict.source, verdict.advice)


def figures(run: RequestRun) -> dict[str, Figure]:
    """What the folder says of the checks."""
    found: dict[str, Figure] = {}
    m = run.run
    if m is not None:
        found["retained_kl"] = Figure(m.retained_kl)
        if m.records is not None:
            found["record_distance"] = Figure(m.records.distance)
            if m.records.copies.looked_for:
                found["copies_left"] = Figure(float(m.records.copies.copied()))
        else:
            found["forget_acc"] = Figure(m.forget_acc)
    before, after = run.network("original"), run.network("result")
    if run.seen is None or before is None or after is None:
        return found
    if after["membership"] is not None:  # below a half it tells as much as above
        auc = after["membership"]["auc"]
        found["attack"] = Figure(max(auc, 1 - auc))
    goes = set(run.seen["forgotten"])
    whole = [accuracy(network, goes, inside=False) for network in (before, after)]
    if whole[0] is not None and whole[1] is not None:
        found["retain_drop"] = Figure(max(0.0, whole[0] - whole[1]))
    drops = [
        100 * (old["hits"] - new["hits"]) / old["samples"]
        for old, new in zip(before["classes"], after["classes"], strict=True)
        if old["class"] not in goes
    ]
    if drops:
        found["worst_class_drop"] = Figure(max(0.0, *drops))
    return found


def part(run: RequestRun) -> str:
    """All lights, with what they were held against."""
    own = run.judged is not None or run.receipt is not None
    note = (
        "What the gate measured, against the limits of its policy."
        if own
        else "Measured figures against the default limits of a policy. No gate decided anything here."
    )
    return f'<p class="note">{note}</p><ul class="lights">' + "".join(map(_shown, lights(run))) + "</ul>"


def _shown(light: Light) -> str:
    about = _ABOUT.get(light.check) or next(check.about for check in CHECKS if check.name == light.check)
    word = {"good": "within its limit", "bad": "beyond its limit", "open": "limit"}[light.state]
    limit = "no limit" if math.isinf(light.limit) else f"{word} of {text(float(light.limit))} {light.unit}"
    value = "" if light.value is None else f"{text(float(light.value))} {light.unit}"
    share = 0.0 if light.value is None or not light.limit else min(1.0, light.value / light.limit)
    predicted = " (predicted)" if light.source == "predicted" else ""
    advice = f'<p class="advice">{escape(light.advice)}</p>' if light.advice else ""
    return (
        f'<li class="light {light.state}"><p class="name"><span class="lamp" aria-hidden="true"></span>'
        f"{escape(_TITLES[light.check])}</p>"
        f'<p class="value">{escape(value) or "not measured"}{predicted}</p>'
        f'<p class="limit">{escape(limit)}</p>'
        f'<span class="meter" aria-hidden="true"><span style="width:{100 * share:.1f}%"></span></span>'
        f'<p class="about">{escape(about[:1].upper() + about[1:])}.</p>{advice}</li>'
    )
