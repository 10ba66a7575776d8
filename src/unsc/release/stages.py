"""The stages of a request as functions, by the names of the commands.

from unsc.release import forget, prepare, verify

prepare("app.net:build", weights="model.safetensors", data="data/train", out="store")
handled = forget("store", "request.csv", out="runs/17")
verify("runs/17/receipt.json")
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unsc.progress import Progress, as_progress, quiet
from unsc.release import taking_back, verification
from unsc.release.asked import Asked, read_request
from unsc.release.from_store import FromStore
from unsc.release.keys import PrivateKey, PublicKey, default_key, public_beside, refuse_inside
from unsc.release.ledger import Entry, read_ledger
from unsc.release.policy import Policy
from unsc.release.preparing import plan_store
from unsc.release.receipt import Receipt
from unsc.release.release import Handled, Rehearsed, handle
from unsc.release.release import rehearse as rehearse_with
from unsc.release.store import Store


def prepare(model: str, *, data: str, out: str | Path, progress: Progress | bool = quiet, **settings: Any) -> Store:
    """Make a store of a model and the data that it was trained on, once after training.

    `settings` are those of `plan_store`: `weights`, `canaries`, `columns`, `transform`, `workers`, `search`, `salt`.
    """
    return plan_store(model, data=data, **settings).make(out, progress=progress)


def forget(
    store: str | Path,
    request: str | Path | Asked,
    *,
    out: str | Path,
    policy: Policy | str | Path | None = None,
    key: PrivateKey | str | Path | None = None,
    wait: float = 5.0,
    **settings: Any,
) -> Handled:
    """Forget what a request asks for, from a store and the forgotten samples alone, and release what passes the gate.

    `request` is a file, or what one says. `policy` and `key` are files too: the limits of the gate, and the private key
    that signs the receipt, which is made in your settings' folder if there is none. Another process that works on the
    store is waited for, `wait` seconds at most. `settings` are those of `candidates`.
    """
    folder, results = Path(store), Path(out)
    make, limits = candidates(folder, **settings), _policy(policy)
    return handle(folder, _asked(request), make, policy=limits, key=_key(key, folder, results), out=results, wait=wait)


def rehearse(
    store: str | Path,
    request: str | Path | Asked,
    *,
    policy: Policy | str | Path | None = None,
    wait: float = 5.0,
    **settings: Any,
) -> Rehearsed:
    """The same up to the gate's verdict; nothing is released, and nothing is kept."""
    make = candidates(Path(store), **settings)
    return rehearse_with(Path(store), _asked(request), make, policy=_policy(policy), wait=wait)


def candidates(
    store: Path,
    *,
    data: str | None = None,
    validation: str | None = None,
    weights: str | Path | None = None,
    workers: int = 0,
    search: str | Path = ".",
    progress: Progress | bool = quiet,
    **options: Any,
) -> FromStore:
    """What makes candidates for a store.

    `data` is where the samples to forget are, by default where they were when the store was prepared; nothing else
    needs to be there. `validation` is data that the network was not trained on. `weights` are those that the store was
    prepared with, if they are elsewhere by now. `options` are those of `unsc.forget`.
    """
    file = None if weights is None else Path(weights)
    return FromStore(store, data, validation, file, workers, Path(search), options, as_progress(progress))


def verify(
    receipts: str | Path | Sequence[str | Path],
    *,
    key: PublicKey | str | Path | None = None,
    weights: str | Path | None = None,
) -> tuple[Receipt, ...]:
    """The receipts in these files, if the owner of the public key (your own by default) signed them as they are.

    Several must be a whole chain; `weights`, a file or folder, must be what the last of them released.
    """
    paths = [receipts] if isinstance(receipts, (str, Path)) else receipts
    public = key if isinstance(key, PublicKey) else PublicKey.load(Path(key or public_beside(default_key())))
    return verification.verify([Path(p) for p in paths], public, weights=None if weights is None else Path(weights))


def log(store: str | Path) -> tuple[Entry, ...]:
    """Every request of a store, in the order in which they began."""
    with read_ledger(Path(store)) as ledger:
        return ledger.entries()


def show(store: str | Path, request: int) -> Entry:
    """A request by its number."""
    with read_ledger(Path(store)) as ledger:
        return ledger.entry(request)


def rollback(
    store: str | Path,
    request: int,
    *,
    out: str | Path,
    policy: Policy | str | Path | None = None,
    key: PrivateKey | str | Path | None = None,
    weights: str | Path | None = None,
    wait: float = 5.0,
) -> Entry:
    """Take the last release back, where the policy allows it; as `forget` for policy and key."""
    folder, results = Path(store), Path(out)
    return taking_back.rollback(
        folder,
        request,
        policy=_policy(policy),
        key=_key(key, folder, results),
        out=results,
        weights=None if weights is None else Path(weights),
        wait=wait,
    )


def _asked(request: str | Path | Asked) -> Asked:
    return request if isinstance(request, Asked) else read_request(Path(request))


def _policy(policy: Policy | str | Path | None) -> Policy:
    if policy is None:
        return Policy()
    return policy if isinstance(policy, Policy) else Policy.load(Path(policy))


def _key(key: PrivateKey | str | Path | None, *folders: Path) -> PrivateKey:
    """A key that is at hand, or the one in a file outside of these folders; a new one if there is none."""
    if isinstance(key, PrivateKey):
        return key
    path = default_key() if key is None else Path(key)
    refuse_inside(path, *folders)
    return PrivateKey.load_or_create(path)
