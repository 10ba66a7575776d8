"""`unsc verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unsc.cli.requests import AsJson, say, show_json


def command(
    receipts: Annotated[list[Path], typer.Argument(help="receipt.json, or all of a chain.")],
    key: Annotated[Path | None, typer.Option(help="The signer's public key; your own by default.")] = None,
    weights: Annotated[Path | None, typer.Option(help="The released model: its folder, or a file of it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check that receipts are as they were signed, that none is missing, and that weights are those released."""
    from unsc.release.keys import PublicKey, default_key, public_beside
    from unsc.release.verification import verify

    public = PublicKey.load(key or public_beside(default_key()))
    found = verify(receipts, public, weights=weights)
    if as_json:
        show_json({"verified": True, "key": public.fingerprint, "receipts": [r.content for r in found]})
        return
    for receipt in found:
        content = receipt.content
        say(f"Verified: {content['action']} {receipt.number}, {content['made']}. {content['says']}")
    say("It does not prove everything:", *(f"- {line}" for line in found[-1].content["does_not_prove"]))
