"""Pickles of plain values, read without running what they might name."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

from unsc.bench.data.shared.pixels import read_bytes
from unsc.errors import InvalidData


class _Unwanted(pickle.UnpicklingError):
    """A pickle names a callable that plain values do not need."""


class _PlainUnpickler(pickle.Unpickler):
    """Reads arrays, lists, numbers and strings, and refuses any other callable a pickle might name."""

    _allowed = frozenset(
        (module, name)
        for module in ("numpy", "numpy.core.multiarray", "numpy._core.multiarray")
        for name in ("ndarray", "dtype", "_reconstruct")
    ) | {("_codecs", "encode")}

    def find_class(self, module: str, name: str) -> object:
        if (module, name) in self._allowed:
            return super().find_class(module, name)
        raise _Unwanted(f"{module}.{name}")


def plain_pickle(path: Path) -> dict:
    """A CIFAR file's content; the keys of the original files are bytes, those of some copies are strings."""
    raw = read_bytes(path)
    try:
        content = _PlainUnpickler(io.BytesIO(raw), encoding="bytes").load()
        if not isinstance(content, dict):
            raise pickle.UnpicklingError(f"it holds a {type(content).__name__}, not a dict")
        return {_text(k): [_text(i) for i in v] if isinstance(v, list) else v for k, v in content.items()}
    except _Unwanted as e:
        raise InvalidData(f"{path} wants {e}, which no CIFAR file needs; do not trust it") from e
    except Exception as e:  # a broken pickle can raise anything
        raise InvalidData(f"{path} is not a whole CIFAR file ({e}); fetch it again") from e


def _text(value: object) -> object:
    return value.decode() if isinstance(value, bytes) else value
