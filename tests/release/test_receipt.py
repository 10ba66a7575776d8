"""Receipts: any changed byte is found, and a missing one shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unsc.errors import NotVerified, UnscError
from unsc.release.canonical import canonical, plain
from unsc.release.keys import PrivateKey
from unsc.release.receipt import Receipt, sign, verify_chain


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> PrivateKey:
    return PrivateKey.create(tmp_path_factory.mktemp("keys") / "key.pem")


def content(number: int = 1, previous: str | None = None, chain: str = "c") -> dict[str, Any]:
    return {
        "action": "release", "chain": chain, "number": number, "previous": previous, "made": "2026-01-01",
        "request": {"forgotten": "0" * 64, "samples": 3}, "parent": {"sha256": "1" * 64},
        "child": {"sha256": "2" * 64, "files": {"model.safetensors": "3" * 64}}, "policy": {}, "verdicts": [],
        "metrics": {"forget_acc": {"value": 0.125}}, "drift": {}, "config": {}, "code": {}, "environment": {},
        "says": "Vergessen: ä", "does_not_prove": ["much"],
    }  # fmt: skip


def chain(key: PrivateKey, length: int, name: str = "c") -> list[Receipt]:
    made: list[Receipt] = []
    for i in range(length):
        raw = sign(content(i + 1, made[-1].sha256 if made else None, name), key)
        made.append(Receipt.parse(raw, f"receipt {i + 1}"))
    return made


def test_what_was_signed_is_verified(key: PrivateKey) -> None:
    Receipt.parse(sign(content(), key)).verify(key.public)


def test_every_changed_byte_is_found(key: PrivateKey) -> None:
    """In every place, one bit changed, one byte left out, one put in."""
    raw = sign(content(), key)
    for i in range(len(raw)):
        for bad in (raw[:i] + bytes([raw[i] ^ 1]) + raw[i + 1 :], raw[:i] + raw[i + 1 :], raw[:i] + b" " + raw[i:]):
            with pytest.raises(NotVerified):
                Receipt.parse(bad).verify(key.public)


def test_the_same_in_other_words_is_no_receipt(key: PrivateKey) -> None:
    raw = sign(content(), key)
    for bad in (
        json.dumps(json.loads(raw)).encode(),
        raw + b"\n",
        raw.replace(b"0.125", b"0.1250"),
        b"\xef\xbb\xbf" + raw,
    ):
        with pytest.raises(NotVerified):
            Receipt.parse(bad)


def test_a_chain_is_whole(key: PrivateKey) -> None:
    receipts = chain(key, 4)
    verify_chain(receipts, key.public)
    verify_chain(receipts[::-1], key.public)
    verify_chain(receipts[:2], key.public)  # nobody can tell whether there are later ones
    for i in range(3):
        with pytest.raises(NotVerified, match=f"number {i + 1}"):
            verify_chain(receipts[:i] + receipts[i + 1 :], key.public)


def test_a_chain_is_of_one_store_and_in_one_order(key: PrivateKey) -> None:
    first, second = chain(key, 2), chain(key, 2, "other")
    with pytest.raises(NotVerified, match="2 stores"):
        verify_chain([first[0], second[1]], key.public)
    forged = Receipt.parse(sign(content(2, "f" * 64), key), "forged")
    with pytest.raises(NotVerified, match="forged does not follow"):
        verify_chain([first[0], forged], key.public)
    with pytest.raises(NotVerified, match="does not follow"):
        verify_chain([first[0], first[1], first[1]], key.public)


def test_a_file_of_hostile_size_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "receipt.json").open("wb") as f:
        f.truncate(1 << 30)
    with pytest.raises(UnscError, match="16777216 bytes"):
        Receipt.load(tmp_path / "receipt.json")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(deadline=None)
@given(st.binary(max_size=100) | values.map(lambda v: canonical(plain(v))))
def test_whatever_a_file_holds_there_is_no_traceback(raw: bytes) -> None:
    with pytest.raises(NotVerified):
        Receipt.parse(raw)


@settings(deadline=None)
@given(st.sampled_from(sorted(content())), values)
def test_whatever_a_field_holds_it_is_not_verified(key: PrivateKey, field: str, value: object) -> None:
    signed = json.loads(sign(content(), key))
    if plain(value) == signed[field]:
        return
    with pytest.raises(NotVerified):
        Receipt.parse(canonical({**signed, field: plain(value)})).verify(key.public)
