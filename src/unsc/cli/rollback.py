"""`unsc rollback`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unsc.cli.requests import (
    AsJson,
    KeyFile,
    PolicyFile,
    StoreFolder,
    entry_as_dict,
    policy_in,
    say,
    show_json,
    signing_key,
)


def command(
    request: Annotated[int, typer.Argument(help="The number of the last release in `unsc log`.")],
    store: StoreFolder,
    out: Annotated[Path, typer.Option(help="A new folder for the weights before it, and the receipt.")],
    weights: Annotated[Path | None, typer.Option(help="Where those are, if this was the first release.")] = None,
    policy: PolicyFile = None,
    key: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Take the last release back, where the policy allows it: the influence of deleted data comes back."""
    from unsc.release.taking_back import rollback

    entry = rollback(
        store, request, policy=policy_in(policy), key=signing_key(key, store, out), out=out, weights=weights
    )
    if as_json:
        show_json(entry_as_dict(entry))
    else:
        say(f"Request {request} was taken back: the weights before it are in {out}, with a receipt that says so")
