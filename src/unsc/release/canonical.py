"""One form for one content: JSON in exactly one way, so that a hash or a signature is of what it says."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any


def canonical(content: Any) -> bytes:
    """The one way to write it: sorted names, two spaces, ASCII, a newline at the end; no NaN."""
    return (json.dumps(content, sort_keys=True, indent=2, ensure_ascii=True, allow_nan=False) + "\n").encode()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def plain(content: Any) -> Any:
    """The same in lists, objects and what JSON has for values; numbers that are not finite become words."""
    if isinstance(content, Mapping):
        return {str(name): plain(value) for name, value in content.items()}
    if isinstance(content, (list, tuple, set, frozenset)):
        return [plain(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return str(content)
    return content if isinstance(content, (str, int, float, type(None))) else str(content)
