"""Verify receipts: of a single release, or of a whole chain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unsc.errors import InvalidRequest
from unsc.release.keys import PublicKey
from unsc.release.receipt import FILE, Receipt, verify_chain


def verify(receipts: Sequence[Path], key: PublicKey, *, weights: Path | None = None) -> tuple[Receipt, ...]:
    """The receipts in these files (or in these runs' folders), if the owner of the key signed them as they are.

    Several must be a whole chain, from the first. `weights`, the folder or a file of the released model, is held
    against the last of them.
    """
    if not receipts:
        raise InvalidRequest("there is no receipt to verify; name one, or all of a chain")
    found = sorted((Receipt.load(p / FILE if p.is_dir() else p) for p in receipts), key=lambda receipt: receipt.number)
    if len(found) == 1:
        found[0].verify(key)
    else:
        verify_chain(found, key)
    if weights is not None:
        found[-1].verify_weights(weights)
    return tuple(found)
