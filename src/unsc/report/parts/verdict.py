"""The verdict on a request, in one sentence, and what it can be said to promise."""

from __future__ import annotations

from html import escape

from unsc.report.request import RequestRun
from unsc.result import RunMetrics

_STATES = {"forgotten": "good", "not forgotten": "bad", "not known": "open", "not verified": "open"}
"""How the page marks a status; `released` and `refused` are the gate's."""


def state(run: RequestRun) -> tuple[str, str]:
    """The status in a word or two, and how it is marked: good, bad or open."""
    if run.receipt is not None:
        return ("released", "good") if run.receipt["action"] == "release" else ("rolled back", "open")
    if run.judged is not None:
        refused = not all(one["passed"] for one in run.judged["verdicts"])
        return ("refused", "bad") if refused else ("passed the gate", "good")
    if run.run is not None:
        return run.run.status, _STATES[run.run.status]
    return "not judged", "open"


def sentence(run: RequestRun) -> str:
    """The verdict in one sentence."""
    what = run.what[:1].upper() + run.what[1:]
    if run.receipt is not None and run.receipt["action"] != "release":
        return f"A release was taken back: {run.what} may be known to these weights again."
    if run.run is None:
        return _by_gate(run, what)
    m = run.run
    if m.status == "not known":
        return f"Nothing can be shown to be forgotten: the network did not know {run.what} to begin with."
    is_ = "are" if m.request == "records" or "classes" in run.what else "is"
    reached = _reached(m)
    said = {
        "forgotten": f"{what} {is_} forgotten: {reached}.",
        "not verified": f"{what} {is_} where a guess says they should be, which nobody verified: {reached}.",
        "not forgotten": f"{what} {is_} not forgotten: {reached}.",
    }[m.status]
    gate = {"released": "Released. ", "refused": "Refused by the gate. "}.get(state(run)[0], "")
    return gate + said


def _reached(m: RunMetrics) -> str:
    kept = f"predictions on what stays changed by {m.retained_kl:.2g} nats"
    if m.records is not None:
        return (
            f"their predictions are {m.records.distance:.2g} nats from what they should be "
            f"({m.records.distance_before:.2g} before), and {kept}"
        )
    return (
        f"{m.forget_acc:.1f} % of held-out samples are still classified as before ({m.forget_acc_before:.1f} % in the "
        f"original), and {kept}"
    )


def _by_gate(run: RequestRun, what: str) -> str:
    if run.judged is None:
        return "This folder holds no measurements of a run."
    failed = [one["check"] for one in run.judged["verdicts"] if not one["passed"]]
    if failed:
        return f"{what}: refused by the gate, because of {', '.join(failed)}."
    return f"{what}: all figures are within their limits."


def part(run: RequestRun) -> str:
    """The head of a request's section."""
    name, kind = state(run)
    promise = run.run.promise if run.run is not None else (run.judged or {}).get("promise", "")
    return (
        f'<p class="state {kind}"><span aria-hidden="true"></span>{escape(name)}</p>'
        f'<p class="verdict">{escape(sentence(run))}</p>'
        + (f'<p class="promise">{escape(promise)}</p>' if promise else "")
    )
