"""Take a release back, where the policy allows it: the weights before it are in force again, and the ledger says so."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from unsc.errors import InvalidData, InvalidRequest, NotAllowed
from unsc.loading.weights import read_weights
from unsc.release.evidence import of_rollback
from unsc.release.keys import PrivateKey
from unsc.release.ledger import Entry, Ledger, open_ledger
from unsc.release.policy import Policy
from unsc.release.receipt import FILE as RECEIPT
from unsc.release.receipt import Receipt
from unsc.release.release import finish, recover, recovering, write_receipt
from unsc.release.stage import MODEL, Stage, check_free
from unsc.release.store import Contents, Store
from unsc.storage.hashes import sha256_of_weights

_WEIGHTS = (".safetensors", ".pt", ".pth")


def rollback(
    store: Path,
    number: int,
    *,
    policy: Policy,
    key: PrivateKey,
    out: Path,
    weights: Path | None = None,
    wait: float = 5.0,
) -> Entry:
    """Put the weights before release `number`, the last one, into the folder `out` and in force again.

    `weights` is the file or folder that holds them; by default the model of the release before it. What the release
    deleted from the store stays deleted, so a new store is needed for further requests.
    """
    if not policy.rollback:
        raise NotAllowed(
            "the policy allows no rollback: it would bring the influence of deleted data back. If that is meant, "
            "write allowed = true under [rollback]"
        )
    with open_ledger(store, wait=wait) as ledger:
        recover(ledger, store)
        last = _last(ledger, number)
        found = weights or _before(ledger, last)
        _check_weights(found, last.parent)
        present = Store(store)
        before = replace(present.manifest, weights=last.parent)
        contents = Contents(before, present.statistics, present.canaries, present.markers)
        receipt = Receipt.load(Path(last.out) / RECEIPT)
        check_free(out, store)
        entry = ledger.begin(f"rollback of {number}", "rollback", str(last.child), out.absolute())
        with recovering(ledger, store):
            stage = Stage(store, out.absolute(), entry.number)
            stage.open()
            stage.fill(lambda folder: _copy(found, folder), stage.model)
            stage.fill(lambda folder: contents.save(folder, generation=present.generation + 1), stage.next)
            stage.report({"kind": "rollback", "of": number})
            content = of_rollback(receipt.content["request"], str(last.child), last.parent, policy, stage.model)
            signed = write_receipt(ledger, stage, content, key)
            entry = ledger.move(entry, "releasing", child=last.parent, receipt=signed, result={"taken_back": number})
            return finish(ledger, entry, store)


def _last(ledger: Ledger, number: int) -> Entry:
    entry, last = ledger.entry(number), ledger.in_force()
    if last is None or last.number != entry.number or entry.kind == "rollback":
        in_force = f"that is {last.number}" if last and last.kind != "rollback" else "there is none"
        raise InvalidRequest(f"request {number} is {entry.state}; only the last release can be taken back: {in_force}")
    return last


def _before(ledger: Ledger, last: Entry) -> Path:
    """The model that was in force before a release."""
    earlier = [e for e in ledger.entries() if e.state == "released" and e.number < last.number]
    if not earlier:
        raise InvalidRequest("this was the first release; name the weights that the store was prepared for (--weights)")
    return Path(earlier[-1].out) / MODEL


def _check_weights(path: Path, wanted: str) -> None:
    """Refuse weights that are not those before the release."""
    files = [f for f in (sorted(path.iterdir()) if path.is_dir() else [path]) if f.suffix in _WEIGHTS]
    if not files:
        raise InvalidData(f"{path} holds no weights; name the file or folder of those before the release (--weights)")
    state = {name: tensor for file in files for name, tensor in read_weights(file).items()}
    if sha256_of_weights(state) != wanted:
        raise InvalidData(
            f"{path} does not hold the weights before the release (SHA-256 {wanted}); name them (--weights)"
        )


def _copy(found: Path, folder: Path) -> None:
    for path in sorted(found.iterdir()) if found.is_dir() else [found]:
        if path.is_file():
            shutil.copyfile(path, folder / path.name)
