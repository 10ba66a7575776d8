"""SHA-256 of files and of weights, in hexadecimal."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from unsc.errors import InvalidData

_CHUNK = 1 << 20


def is_sha256(value: object) -> bool:
    """Whether it is written as one: 64 hexadecimal digits in lower case."""
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


def sha256_of_file(path: Path) -> str:
    """Of a file's bytes, read in parts."""
    found = hashlib.sha256()
    try:
        with path.open("rb") as f:
            while part := f.read(_CHUNK):
                found.update(part)
    except OSError as e:
        raise InvalidData(f"cannot read {path} ({e.strerror}); give a file that is there") from e
    return found.hexdigest()


def sha256_of_weights(state: Mapping[str, Tensor]) -> str:
    """Of tensors by name, whatever file they are in: names, types, shapes and bytes, in the order of names."""
    found = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        found.update(f"{name}\0{tensor.dtype}\0{tuple(tensor.shape)}\0".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()
