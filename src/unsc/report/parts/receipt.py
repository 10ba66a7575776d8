"""What the receipt says, and what is not claimed."""

from __future__ import annotations

from html import escape

from unsc.report.html import bullets, pairs, paragraph
from unsc.report.request import RequestRun

NOT_CLAIMED = (
    "That the weights are those of a network that was never trained on what was forgotten.",
    "That no attack finds traces: only those were tried whose figures are shown here.",
    "That the figures hold for other data than they were measured on.",
    "Anything about copies of the samples, backups, logs, caches, or models that were made from the earlier weights; "
    "the earlier weights themselves still know what was forgotten.",
    "Anything in law.",
)


def part(run: RequestRun) -> str:
    """The receipt in words; without one, that there is none."""
    if run.receipt is None and run.judged is not None:
        return paragraph("There is no receipt: this candidate was not released.", "note")
    if run.receipt is None:
        return paragraph(
            "There is no receipt: nothing was released through a store. `unsc forget --store` writes one, signed.",
            "note",
        )
    said = run.receipt
    request = said["request"]
    items = [
        ("says", said["says"]),
        ("made", said["made"]),
        ("number in its chain", str(said["number"])),
        ("request", f"{request['kind']}, {request['samples']} samples"),
        ("copies that stay", str(request.get("copies_left", "not known"))),
        ("weights before", said["parent"]["sha256"]),
        ("weights after", said["child"]["sha256"]),
        ("code", said["code"]["sha256"]),
        ("policy", said["policy"]["sha256"]),
        ("signed with the key", said["signature"]["key"]),
    ]
    check = "This page shows the receipt and does not check it. To check it: <code>unsc verify " + escape(
        f"{run.name}/receipt.json"
    )
    return pairs(items) + f"<p class='note'>{check} --key signer.pub --weights {escape(run.name)}/model</code></p>"


def not_claimed(run: RequestRun) -> str:
    """The receipt's own list, or the usual one."""
    return bullets(run.receipt["does_not_prove"] if run.receipt is not None else NOT_CLAIMED)
