"""`unsc forget` with a store, and what it and `unsc prepare` print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from unsc.cli.output import note
from unsc.cli.requests import entry_as_dict, say, show_json, verdict_table
from unsc.errors import listing
from unsc.release.asked import Asked
from unsc.release.policy import Verdict, figures_as_dict
from unsc.release.preparing import Estimate, Preparation
from unsc.release.release import Handled, Rehearsed
from unsc.release.store import Store


def show_estimate(planned: Preparation, estimate: Estimate, *, as_json: bool) -> None:
    """What a store will take, before it is made: on standard error, or as JSON."""
    if as_json:
        show_json({"estimate": asdict(estimate), "classes": planned.class_names, "samples": len(planned.data)})
        return
    note(
        f"{len(planned.data)} training samples of {len(planned.class_names)} classes; statistics of "
        f"{len(planned.layers)} layers from {estimate.samples} of them, about {_size(estimate.bytes)} and "
        f"{estimate.seconds:.0f} s"
    )


def show_store(store: Store, estimate: Estimate, *, as_json: bool) -> None:
    size = sum(path.stat().st_size for path in store.folder.iterdir())
    manifest = store.manifest
    if as_json:
        told = {"weights": manifest.weights, "samples": len(manifest.samples), "canaries": len(store.canaries)}
        show_json({"store": str(store.folder), "bytes": size, "estimate": asdict(estimate), **told})
        return
    users = f", requests by {listing(manifest.columns)}" if manifest.columns else ""
    say(
        f"Written to {store.folder}: {_size(size)}, {len(manifest.samples)} samples by hash, "
        f"{len(store.canaries)} canaries{users}"
    )


def forget_from_store(
    store: Path, asked: Asked, out: Path | None, key: Path | None, settings: Mapping[str, Any], *, as_json: bool
) -> bool:
    """Forget from a store, show what became of it and write it to `out`; with None only say what would become of it."""
    from unsc.cli.view import view
    from unsc.release.stages import forget, rehearse

    if out is None:
        with view() as progress:
            rehearsed = rehearse(store, asked, progress=progress, **settings)
        show_rehearsed(rehearsed, as_json=as_json)
        return rehearsed.passed
    with view() as progress:
        handled = forget(store, asked, out=out, key=key, progress=progress, **settings)
    show_handled(handled, out, as_json=as_json)
    return handled.released


def show_rehearsed(found: Rehearsed, *, as_json: bool) -> None:
    """What would become of a request."""
    if as_json:
        told = {"passed": found.passed, "samples": len(found.resolved.ids), "copies": found.copies}
        made = {"promise": found.made.promise, "metrics": figures_as_dict(found.made.figures)}
        show_json({**told, **made, "verdicts": [asdict(v) for v in found.verdicts]})
        return
    _show_verdicts(found.verdicts, found.copies)
    say(found.made.promise, f"It would be {'released' if found.passed else 'refused'}. Nothing was written.")


def show_handled(found: Handled, out: Path, *, as_json: bool) -> None:
    """What became of a request."""
    entry = found.entry
    if as_json:
        show_json({**entry_as_dict(entry), "copies": found.copies})
        return
    _show_verdicts(found.verdicts, found.copies)
    say(str(entry.result.get("promise", "")))
    if not found.released:
        say(f"Not released. The candidate is kept aside in {out}; the model in force is what it was.")
    elif not found.verdicts:
        say(f"Request {entry.number} was released before, into {entry.out}; nothing was done.")
    else:
        say(f"Released as request {entry.number}: {entry.out}/model, with receipt.json and report.json")


def _show_verdicts(verdicts: Sequence[Verdict], copies: Sequence[str]) -> None:
    if verdicts:
        Console().print(verdict_table([asdict(verdict) for verdict in verdicts]))
    if copies:
        say(f"Copies that stay, byte for byte: {listing(copies, limit=40)}")
    say(*(f"{verdict.check}: {verdict.advice}" for verdict in verdicts if not verdict.passed))


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
