"""Packages that only parts of this one need, and that a plain install does not bring."""

from __future__ import annotations

import importlib
from types import ModuleType

from unsc.errors import MissingExtra


def need(module: str, *, extra: str) -> ModuleType:
    """The imported `module`, or an error that names the extra which brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as e:
        package = module.partition(".")[0]
        if e.name is None or e.name.partition(".")[0] != package:
            raise  # the package is there, and something that it needs is not
        raise MissingExtra(f"this needs {package}, which is not installed; run: pip install 'unsc[{extra}]'") from e
