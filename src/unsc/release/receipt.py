"""Receipts: what was released for a request, signed, each with the hash of the one before."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unsc.errors import InvalidData, NotVerified, listing
from unsc.release.canonical import canonical, sha256
from unsc.release.keys import PrivateKey, PublicKey
from unsc.release.strict import Fields
from unsc.storage.hashes import is_sha256, sha256_of_file

FILE = "receipt.json"
_KIND, _VERSION = "unsc receipt", 1
_NAMES = (
    "action", "chain", "child", "code", "config", "does_not_prove", "drift", "environment", "made", "metrics",
    "number", "parent", "policy", "previous", "request", "says", "signature", "verdicts",
)  # fmt: skip
_LARGEST = 16 << 20
"""Bytes of a receipt."""


@dataclass(frozen=True)
class Receipt:
    """A receipt that has the form of one; `verify` says whether it can be trusted."""

    content: Mapping[str, Any]
    raw: bytes
    """The file's bytes; there is one way to write a receipt."""
    where: str

    @property
    def sha256(self) -> str:
        """What the next one calls `previous`."""
        return sha256(self.raw)

    @property
    def number(self) -> int:
        """Its place in the chain, from 1."""
        return self.content["number"]

    @property
    def previous(self) -> str | None:
        return self.content["previous"]

    @classmethod
    def load(cls, path: Path) -> Receipt:
        try:
            with path.open("rb") as f:
                raw = f.read(_LARGEST + 1)
        except (OSError, ValueError) as e:
            raise InvalidData(f"cannot read {path} ({getattr(e, 'strerror', e)}); give a receipt.json") from e
        if len(raw) > _LARGEST:
            raise InvalidData(f"{path} is larger than {_LARGEST} bytes, the limit of a receipt; give a receipt.json")
        return cls.parse(raw, str(path))

    @classmethod
    def parse(cls, raw: bytes, where: str = "the receipt") -> Receipt:
        """Bytes that are a receipt; anything that could be written in another way is none."""
        try:
            content = json.loads(raw)
            same = canonical(content) == raw
        except (ValueError, RecursionError) as e:
            raise NotVerified(f"{where} is no receipt: it is no JSON, or damaged ({type(e).__name__})") from e
        if not same:
            raise NotVerified(f"{where} is not written as receipts are; it was changed")
        try:
            found = Fields.of(content, where, kind=_KIND, version=_VERSION, names=_NAMES)
            _check(found)
        except InvalidData as e:
            raise NotVerified(f"{e}; it is no receipt, or was changed") from e
        return cls(content, raw, where)

    def verify(self, key: PublicKey) -> None:
        """Raise unless the owner of the key signed exactly this."""
        signature = self.content["signature"]
        if signature["key"] != key.fingerprint:
            raise NotVerified(
                f"{self.where} was signed with the key {signature['key'][:16]}..., not with {key.fingerprint[:16]}...; "
                "give the signer's public key"
            )
        unsigned = canonical({name: value for name, value in self.content.items() if name != "signature"})
        if not key.signed(bytes.fromhex(signature["value"]), unsigned):
            raise NotVerified(f"{self.where} was changed after it was signed")

    def verify_weights(self, path: Path) -> None:
        """Raise unless a folder holds exactly the files that were released, or a file is one of them."""
        files = self.content["child"]["files"]
        if path.is_dir():
            found = hashes_of(path)
            strange = sorted(name for name in found.keys() | files.keys() if found.get(name) != files.get(name))
            if strange:
                raise NotVerified(f"{listing(strange)} in {path} is not what was released: changed, missing or added")
        elif sha256_of_file(path) not in files.values():
            raise NotVerified(f"{path} is not what was released: its hash is not in {self.where}")

    def covers(self, ids: Iterable[str], salt: str) -> bool:
        """Whether exactly these samples were forgotten; `salt` is that of the run."""
        return hmac.compare_digest(digest_of(ids, salt), self.content["request"]["forgotten"])


def digest_of(ids: Iterable[str], salt: str) -> str:
    """HMAC-SHA256 of the sorted ids. Without the salt nobody can find out ids by trying."""
    content = canonical(sorted(set(ids)))
    return hmac.new(salt.encode(), content, hashlib.sha256).hexdigest()


def sign(content: Mapping[str, Any], key: PrivateKey) -> bytes:
    """The file of a receipt with this content."""
    unsigned = {"kind": _KIND, "version": _VERSION, **content}
    value = key.sign(canonical(unsigned)).hex()
    signature = {"algorithm": "Ed25519", "key": key.public.fingerprint, "value": value}
    return Receipt.parse(canonical({**unsigned, "signature": signature})).raw


def verify_chain(receipts: Sequence[Receipt], key: PublicKey) -> None:
    """Raise unless these are all receipts of one chain up to the last, each signed and none missing."""
    for receipt in receipts:
        receipt.verify(key)
    ordered = sorted(receipts, key=lambda receipt: receipt.number)
    chains = sorted({receipt.content["chain"] for receipt in ordered})
    if len(chains) > 1:
        raise NotVerified(f"the receipts are of {len(chains)} stores ({listing(chains)}); give those of one")
    numbers = [receipt.number for receipt in ordered]
    missing = sorted(set(range(1, (numbers or [0])[-1] + 1)) - set(numbers))
    if missing:
        raise NotVerified(f"receipts are missing from the chain: number {listing(missing)}")
    before: Receipt | None = None
    for receipt in ordered:
        if receipt.previous != (before.sha256 if before else None):
            raise NotVerified(f"{receipt.where} does not follow the receipt of number {receipt.number - 1}")
        before = receipt


def hashes_of(folder: Path) -> dict[str, str]:
    """SHA-256 of each file in a folder, by its name in there."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): sha256_of_file(path) for path in files}


def _check(found: Fields) -> None:
    """What verification itself reads must be there."""
    found.whole("number", 1)
    found.text("chain")
    found.checked("previous", "a SHA-256, or null for the first", lambda v: is_sha256(v) if v is not None else True)
    if (found.content["previous"] is None) != (found.content["number"] == 1):
        raise InvalidData(f"number and previous of {found.where} do not go together")
    found.checked("signature", "an Ed25519 signature", _is_signature)
    found.checked("request", "an object with a digest", lambda v: isinstance(v, dict) and is_sha256(v.get("forgotten")))
    found.checked("child", "an object with the hashes of files", _has_files)


def _is_signature(value: object) -> bool:
    if not isinstance(value, dict) or value.keys() != {"algorithm", "key", "value"}:
        return False
    text = value["value"]
    hexadecimal = isinstance(text, str) and len(text) == 128 and set(text) <= set("0123456789abcdef")
    return value["algorithm"] == "Ed25519" and is_sha256(value["key"]) and hexadecimal


def _has_files(value: object) -> bool:
    files = value.get("files") if isinstance(value, dict) else None
    return isinstance(files, dict) and all(map(is_sha256, files.values())) and is_sha256(value.get("sha256"))  # type: ignore[union-attr]
