"""Keys that receipts are signed with: Ed25519, in PEM files. A private key is for its owner's eyes alone."""

from __future__ import annotations

import hashlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unsc.errors import InvalidData, InvalidRequest
from unsc.extras import need
from unsc.storage.files import write_whole, writing

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_LARGEST = 16 << 10
"""Bytes of a file that can hold a key."""


def default_key() -> Path:
    """Where a user's private key is; the public one is beside it, under `.pub`."""
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "unsc" / "key.pem"


@dataclass(frozen=True)
class PublicKey:
    """What a signature is checked with."""

    key: Ed25519PublicKey

    @classmethod
    def load(cls, path: Path) -> PublicKey:
        """The public key in a PEM file; a private key's file will not do, since nobody should hand that around."""
        serialization = _cryptography("serialization")
        key = _parsed(path, lambda content: serialization.load_pem_public_key(content))
        if not isinstance(key, _cryptography("asymmetric.ed25519").Ed25519PublicKey):
            raise InvalidData(f"{path} holds a key of another kind; give an Ed25519 public key in PEM")
        return cls(key)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the key's 32 bytes, hex."""
        return hashlib.sha256(self.key.public_bytes_raw()).hexdigest()

    def save(self, path: Path) -> None:
        with writing(path):
            write_whole(path, lambda p: p.write_bytes(self._pem()))

    def signed(self, signature: bytes, content: bytes) -> bool:
        """Whether the owner of the key signed this content."""
        try:
            self.key.verify(signature, content)
        except need("cryptography.exceptions", extra="release").InvalidSignature:
            return False
        return True

    def _pem(self) -> bytes:
        serialization = _cryptography("serialization")
        subject = serialization.PublicFormat.SubjectPublicKeyInfo
        return self.key.public_bytes(serialization.Encoding.PEM, subject)


@dataclass(frozen=True, repr=False)
class PrivateKey:
    """What receipts are signed with."""

    key: Ed25519PrivateKey

    @classmethod
    def create(cls, path: Path) -> PrivateKey:
        """A new key in a new file that only its owner may read, and the public one beside it, under `.pub`."""
        beside = public_beside(path)
        if beside == path:
            raise InvalidRequest(f"{path} is named like a public key; name the file of a private one, as in key.pem")
        if beside.exists():
            raise InvalidRequest(f"{beside} exists already; a key is never replaced: name another file than {path}")
        made = cls(_cryptography("asymmetric.ed25519").Ed25519PrivateKey.generate())
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
            try:
                _write_private(part, made._pem())
                os.link(part, path)  # unlike a renaming, this never replaces a key
            except FileExistsError as e:
                raise InvalidRequest(f"{path} exists already; a key is never replaced: name another file") from e
            finally:
                part.unlink(missing_ok=True)
        made.public.save(beside)
        return made

    @classmethod
    def load(cls, path: Path) -> PrivateKey:
        """The private key in a PEM file, if nobody but its owner may read it."""
        serialization = _cryptography("serialization")
        key = _parsed(path, lambda content: serialization.load_pem_private_key(content, password=None))
        if not isinstance(key, _cryptography("asymmetric.ed25519").Ed25519PrivateKey):
            raise InvalidData(f"{path} holds a key of another kind; give an Ed25519 private key in PEM")
        mode = path.stat().st_mode & 0o777
        if os.name == "posix" and mode & 0o077:
            raise InvalidRequest(f"{path} may be read by others (mode {mode:o}); run: chmod 600 {path}")
        return cls(key)

    @classmethod
    def load_or_create(cls, path: Path) -> PrivateKey:
        return cls.load(path) if path.exists() else cls.create(path)

    @property
    def public(self) -> PublicKey:
        return PublicKey(self.key.public_key())

    def sign(self, content: bytes) -> bytes:
        return self.key.sign(content)

    def _pem(self) -> bytes:
        serialization = _cryptography("serialization")
        plain = serialization.NoEncryption()
        return self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


def public_beside(path: Path) -> Path:
    """Where the public key of a private key in this file is."""
    return path.with_suffix(".pub")


def refuse_inside(path: Path, *folders: Path) -> None:
    """Refuse a private key in folders that are handed around: a store, or a run's."""
    for folder in folders:
        if folder.resolve() in path.resolve().parents:
            raise InvalidRequest(f"the private key {path} is in {folder}, which is handed around; move it elsewhere")


def _write_private(path: Path, content: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as f:
        f.write(content)
        f.flush()
        os.fsync(f.fileno())


def _parsed(path: Path, parse: Any) -> Any:
    try:
        with path.open("rb") as f:
            content = f.read(_LARGEST)
        return parse(content)
    except OSError as e:
        raise InvalidData(f"cannot read {path} ({e.strerror}); name the file of a key with --key") from e
    except (ValueError, TypeError, need("cryptography.exceptions", extra="release").UnsupportedAlgorithm) as e:
        raise InvalidData(f"{path} holds no key that can be read; give an Ed25519 key in PEM, without password") from e


def _cryptography(name: str) -> Any:
    return need(f"cryptography.hazmat.primitives.{name}", extra="release")
