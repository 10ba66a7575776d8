"""What a result can be said to do, in words for the person who asked."""

from __future__ import annotations

from unsc.errors import listing
from unsc.looks import Known
from unsc.loop import Stopped
from unsc.measures import RecordMetrics
from unsc.request import Request
from unsc.targets import Near, TargetRule, Unseen
from unsc.verdict import Status

NOTES: dict[Stopped, str] = {
    "forgotten": "The stopping rule was met.",
    "passes": "The cap on passes was reached; the state that had forgotten most was kept.",
    "kl": "Retained predictions moved beyond max_kl; the state before that which had forgotten most was restored.",
    "nan": "The model's outputs became NaN or Inf; the state before that which had forgotten most was restored.",
    "undone": "Nothing was changed: little was gained for what it cost, so the original came back.",
}
_REMEDIES: dict[Stopped, str] = {
    "forgotten": "allow more passes (max_passes) or a lower stop_mass",
    "passes": "allow more passes (max_passes), or a larger budget",
    "kl": "allow more change of retained predictions (max_kl), or give more samples",
    "nan": "take a smaller learning rate, or the budgeted step",
    "undone": "allow more change of retained predictions (max_kl), or accept little for its cost (least_gain=0)",
}


def note_on_classes(stopped: Stopped, after: Known) -> str:
    """Why a run for classes stopped, and how far it got."""
    return f"{NOTES[stopped]} {after.percent:.1f} % of the samples to check are still classified as before."


def note_on_records(stopped: Stopped, records: RecordMetrics) -> str:
    """The same of a run for records."""
    beside = "" if records.validation is None else f", validation samples {records.validation.acc:.1f} %"
    told = (
        f"Records are classified as their label in {records.acc:.1f} % (before: {records.acc_before:.1f} %{beside}); "
        f"their predictions are {records.distance:.3f} nats from what they should be (before: "
        f"{records.distance_before:.3f})."
    )
    return " ".join(filter(None, (NOTES[stopped], told, records.copies.note(), _left_out(records))))


def _left_out(records: RecordMetrics) -> str:
    """That validation samples were training data, in words; empty if none were."""
    overlapping = 0 if records.validation is None else records.validation.overlapping
    return f"{overlapping} validation samples are training data and were left out." if overlapping else ""


def _within(retained: int) -> str:
    """How far retained predictions moved, where so many retained samples were watched."""
    return "the measured KL" if retained else "the predicted KL, which nothing was at hand to measure"


def promise(request: Request, status: Status, stopped: Stopped, before: Known, after: Known, *, retained: int) -> str:
    """What the result of a request for classes can be said to do, from what was measured.

    `retained` is how many retained samples were watched.
    """
    names = ("class " if len(request.classes) == 1 else "classes ") + listing(request.classes)
    share = f"{after.hits} of {after.n} held-out samples"
    if status == "not known":
        return (
            f"The network did not know {names} to begin with: it classified {before.hits} of {before.n} of their held-"
            "out samples so, not clearly more often than it does other samples. Nothing can be shown to be forgotten."
        )
    if status == "not forgotten":
        return (
            f"Not forgotten: {share} of {names} are still classified as before ({before.hits} in the original "
            "network). "
            f"Do not release this model as one that has forgotten; {_REMEDIES[stopped]}."
        )
    return (
        f"Forgotten: {share} of {names} are still classified as before ({before.hits} in the original network); the "
        "others are classified as classes that stay, and predictions on retained data stay within "
        f"{_within(retained)}. This does not promise weights as if the classes had never been seen."
    )


def promise_on_records(
    rule: TargetRule, step: str, status: Status, stopped: Stopped, records: RecordMetrics, *, retained: int
) -> str:
    """What the result of a request for records can be said to do, from what was measured."""
    reached = _reached(rule, records)
    if status == "not known":
        # Other rules do not ask for what unseen samples get.
        found = "what it says of unseen samples" if isinstance(rule, Unseen) else "what it should say"
        return (
            f"The network did not know these records to begin with: it says of them {found}, so there is nothing known "
            f"by heart to forget; {reached}. Nothing can be shown to be forgotten."
        )
    if status == "not forgotten":
        return f"Not forgotten: {_why(reached, stopped, records)}."
    kept = (
        "the other classes are protected by their null space; the rest of a record's own class is not"
        if step == "paper"
        else f"predictions on the retained data, its own class included, stay within {_within(retained)}"
    )
    begin = "Forgotten" if status == "forgotten" else "Not verified"
    return f"{begin}: each record {rule.does}; {reached}. {kept[:1].upper()}{kept[1:]}. {rule.limits}"


def _reached(rule: TargetRule, records: RecordMetrics) -> str:
    goal = rule.goal("records", stop_mass=1.0)
    if isinstance(goal, Near):
        before, after = f"{records.distance_before:.4f}", f"{records.distance:.4f}"
        where = f"{before} nats from what they should be"
        moved = f"are {where}, as before" if before == after else f"were {where} before and are {after} now"
        return f"predictions {moved}; asked for was {goal.asks}"
    return (
        f"{records.acc:.1f} % of the records are still classified as their label ({records.acc_before:.1f} % in the "
        "original network)"
    )


def _why(reached: str, stopped: Stopped, records: RecordMetrics) -> str:
    """Why records are not forgotten, and what to do."""
    if stopped == "undone":
        return f"little was gained for what it cost, so the original came back; {reached}. {_advice(stopped)}"
    copied = records.copies.copied()
    if copied:
        return (
            f"{copied} of the records have copies in the data that stays, which teach the network the same; {reached}. "
            "Do not release this model as one that has forgotten; forget the copies too (copies='include')"
        )
    return f"{reached}. {_advice(stopped)}"


def _advice(stopped: Stopped) -> str:
    return f"Do not release this model as one that has forgotten; {_REMEDIES[stopped]}"
