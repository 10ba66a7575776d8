"""From a request to released weights: resolve, forget, judge, sign, release. Restartable at any point.

The ledger decides (`ledger.py`): before it says `releasing`, nothing is under its final name and whatever is there is
removed by the next call; after it, everything that is needed is on the disk and the next call finishes.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from unsc.errors import InvalidData, InvalidRequest, UnscError
from unsc.evaluation.side_by_side import FILE as REPORT_DATA
from unsc.release.asked import Asked
from unsc.release.candidate import Made, Make
from unsc.release.canonical import plain, sha256
from unsc.release.evidence import of_release
from unsc.release.keys import PrivateKey
from unsc.release.ledger import Entry, Ledger, open_ledger
from unsc.release.manifest import Resolved
from unsc.release.policy import Kind, Policy, Verdict, figures_as_dict
from unsc.release.receipt import FILE as RECEIPT
from unsc.release.receipt import sign
from unsc.release.resolve import resolve
from unsc.release.stage import MODEL, SALT, Stage, check_free
from unsc.release.store import Store


@dataclass(frozen=True)
class Handled:
    """What became of a request."""

    entry: Entry
    verdicts: tuple[Verdict, ...]
    copies: tuple[str, ...]
    """Other samples that are the same as forgotten ones, byte for byte, and stay."""

    @property
    def released(self) -> bool:
        return self.entry.state == "released"


@dataclass(frozen=True)
class Rehearsed:
    """What would become of a request; nothing was written."""

    resolved: Resolved
    made: Made
    verdicts: tuple[Verdict, ...]
    copies: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return all(verdict.passed for verdict in self.verdicts)


def handle(
    store: Path, asked: Asked, make: Make, *, policy: Policy, key: PrivateKey, out: Path, wait: float = 5.0
) -> Handled:
    """Forget what is asked and release the result into the folder `out`, if the policy lets it.

    A request that was released already is not carried out again. What a call before this one left unfinished is
    finished or removed first. Another process that works on the store is waited for, `wait` seconds at most.
    """
    with open_ledger(store, wait=wait) as ledger:
        recover(ledger, store)
        manifest = _opened(ledger, store).manifest
        digest = asked.digest(ledger.salt, manifest.class_names)
        before = ledger.latest(digest)
        if before is not None and before.state == "released":
            return Handled(before, (), ())
        resolved = resolve(asked, manifest)
        check_free(out, store)
        entry = ledger.begin(digest, kind_of(resolved), manifest.weights, out.absolute())
        with recovering(ledger, store):
            made = make(resolved, model_in_force(ledger))
            verdicts = policy.judge(made.figures, kind_of(resolved))
            stage = Stage(store, out.absolute(), entry.number)
            _write(stage, made, resolved, verdicts)
            if all(verdict.passed for verdict in verdicts):
                salt = secrets.token_hex(32)
                stage.write(SALT, f"{salt}\n".encode(), mode=0o600)
                content = of_release(made, resolved, manifest, policy, verdicts, stage.model, salt)
                receipt = write_receipt(ledger, stage, content, key)
                entry = ledger.move(
                    entry, "releasing", child=made.weights, receipt=receipt, result=_told(made, verdicts)
                )
                entry = finish(ledger, entry, store)
            else:
                stage.sync()
                stage.keep_aside()
                entry = ledger.move(entry, "refused", child=made.weights, result=_told(made, verdicts))
        return Handled(entry, verdicts, manifest.copies(resolved.ids))


def rehearse(store: Path, asked: Asked, make: Make, *, policy: Policy, wait: float = 5.0) -> Rehearsed:
    """Forget what is asked and judge the result, and leave everything as it is."""
    with open_ledger(store, wait=wait) as ledger:
        recover(ledger, store)
        manifest = _opened(ledger, store).manifest
        resolved = resolve(asked, manifest)
        made = make(resolved, model_in_force(ledger))
        return Rehearsed(resolved, made, policy.judge(made.figures, kind_of(resolved)), manifest.copies(resolved.ids))


def recover(ledger: Ledger, store: Path) -> None:
    """Finish what had passed the gate, and remove what had not, of whatever was cut short."""
    entry = ledger.unfinished()
    if entry is None:
        return
    if entry.state == "releasing":
        finish(ledger, entry, store)
    else:
        Stage(store, Path(entry.out), entry.number).discard()
        ledger.move(entry, "dropped")


def finish(ledger: Ledger, entry: Entry, store: Path) -> Entry:
    """Let a release appear; it is decided already."""
    Stage(store, Path(entry.out), entry.number).publish()
    return ledger.move(entry, "released", taken_back=entry.result.get("taken_back"))


def model_in_force(ledger: Ledger) -> Path | None:
    """The folder of the model that was released last; None before the first release."""
    last = ledger.in_force()
    if last is None:
        return None
    folder = Path(last.out) / MODEL
    if not folder.is_dir():
        raise InvalidData(f"{folder} is gone, the model that was released for request {last.number}; put it back")
    return folder


def kind_of(resolved: Resolved) -> Kind:
    return "classes" if resolved.classes else "records"


def write_receipt(ledger: Ledger, stage: Stage, content: Mapping[str, Any], key: PrivateKey) -> str:
    """Sign the next receipt of the chain; its hash. Then all parts of the stage are on the disk."""
    chain = ledger.receipts()
    place = {"chain": ledger.chain, "number": len(chain) + 1, "previous": chain[-1] if chain else None}
    receipt = sign({**content, **place}, key)
    stage.write(RECEIPT, receipt)
    stage.sync()
    return sha256(receipt)


@contextmanager
def recovering(ledger: Ledger, store: Path) -> Generator[None]:
    """Whatever goes wrong inside leaves nothing behind, as far as the disk lets that be."""
    try:
        yield
    except BaseException:
        with suppress(UnscError, OSError):  # if not now, then when the store is opened next
            recover(ledger, store)
        raise


def _write(stage: Stage, made: Made, resolved: Resolved, verdicts: Sequence[Verdict]) -> None:
    stage.open()
    stage.fill(made.save, stage.model)
    stage.fill(made.save_store, stage.next)
    stage.report(
        {
            "request": {"kind": kind_of(resolved), "samples": len(resolved.ids)},
            "drift": made.drift,
            "config": made.config,
            **_told(made, verdicts),
            **made.report,
        }
    )
    if made.shown is not None:
        stage.write(REPORT_DATA, json.dumps(made.shown).encode())


def _told(made: Made, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """What the ledger and the report keep of a candidate."""
    judged = [asdict(verdict) for verdict in verdicts]
    return plain({"promise": made.promise, "metrics": figures_as_dict(made.figures), "verdicts": judged})


def _opened(ledger: Ledger, folder: Path) -> Store:
    """The store, if it is the one that the ledger tells of and takes requests."""
    store, last = Store(folder), ledger.in_force()
    if last is not None and last.kind == "rollback":
        raise InvalidRequest(
            f"the last release of {folder} was taken back. What it deleted has left the store, which so does not know "
            "the weights that are in force; prepare a new store from them"
        )
    releases = len(ledger.receipts())
    if store.generation != releases or (last is not None and last.child != store.manifest.weights):
        raise InvalidData(
            f"{folder} has changed {store.generation} times, but its ledger tells of {releases} releases; restore both "
            "from one backup, or prepare a new store"
        )
    return store
