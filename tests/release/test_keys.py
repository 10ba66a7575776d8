"""Keys: for their owner alone, never replaced, never in folders that are handed around."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from unsc.errors import InvalidData, InvalidRequest
from unsc.release.keys import PrivateKey, PublicKey, default_key, refuse_inside


def test_a_key_comes_back_and_signs(tmp_path: Path) -> None:
    made = PrivateKey.create(tmp_path / "a" / "key.pem")
    signature = PrivateKey.load(tmp_path / "a" / "key.pem").sign(b"content")
    public = PublicKey.load(tmp_path / "a" / "key.pub")
    assert public.signed(signature, b"content") and not public.signed(signature, b"contenT")
    assert public.fingerprint == made.public.fingerprint
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["key.pem", "key.pub"]


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        PrivateKey.create(tmp_path / "new" / "key.pem")
    finally:
        os.umask(mask)
    assert (tmp_path / "new" / "key.pem").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    (tmp_path / "new" / "key.pem").chmod(0o640)
    with pytest.raises(InvalidRequest, match="chmod 600"):
        PrivateKey.load(tmp_path / "new" / "key.pem")


def test_a_key_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    PrivateKey.create(path)
    before = path.read_bytes()
    with pytest.raises(InvalidRequest, match="never replaced"):
        PrivateKey.create(path)
    assert PrivateKey.load_or_create(path).public.fingerprint and path.read_bytes() == before


def test_neither_is_a_public_key(tmp_path: Path) -> None:
    """That of an earlier private key verifies what that one signed; a private one of its name would be lost to it."""
    PrivateKey.create(tmp_path / "key.pem")
    (tmp_path / "key.pem").unlink()
    before = (tmp_path / "key.pub").read_bytes()
    with pytest.raises(InvalidRequest, match=r"key\.pub exists already; a key is never replaced"):
        PrivateKey.load_or_create(tmp_path / "key.pem")
    with pytest.raises(InvalidRequest, match=r"other\.pub is named like a public key"):
        PrivateKey.load_or_create(tmp_path / "other.pub")
    assert [path.name for path in tmp_path.iterdir()] == ["key.pub"]
    assert (tmp_path / "key.pub").read_bytes() == before


def test_it_shows_nothing_of_itself(tmp_path: Path) -> None:
    made = PrivateKey.create(tmp_path / "key.pem")
    secret = made.key.private_bytes_raw().hex()
    assert secret not in repr(made) and b"PRIVATE" not in (tmp_path / "key.pub").read_bytes()


@pytest.mark.parametrize("inside", ["runs/1/key.pem", "runs/1/a/key.pem", "runs/1/../1/key.pem"])
def test_a_key_in_a_run_is_refused(tmp_path: Path, inside: str) -> None:
    with pytest.raises(InvalidRequest, match="handed around"):
        refuse_inside(tmp_path / inside, tmp_path / "store", tmp_path / "runs" / "1")
    refuse_inside(tmp_path / "runs" / "key.pem", tmp_path / "store", tmp_path / "runs" / "1")


def test_what_is_no_key(tmp_path: Path) -> None:
    PrivateKey.create(tmp_path / "key.pem")
    other = rsa.generate_private_key(65537, 1024)
    form = serialization.PrivateFormat.PKCS8
    contents = {
        "empty": b"",
        "noise": b"\xff\x00",
        "rsa": other.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()),
        "locked": other.private_bytes(serialization.Encoding.PEM, form, serialization.BestAvailableEncryption(b"x")),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o600)
    for name in (*contents, "missing", "key.pub"):
        with pytest.raises(InvalidData):
            PrivateKey.load(tmp_path / name)
    for name in (*contents, "missing", "key.pem"):
        with pytest.raises(InvalidData):
            PublicKey.load(tmp_path / name)


def test_where_it_is_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert default_key() == tmp_path / "unsc" / "key.pem"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_key() == tmp_path / ".config" / "unsc" / "key.pem"
