"""Steps are made of gradients, whatever mode the caller is in: a script may be under `torch.no_grad()` throughout."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch


@contextmanager
def with_gradients() -> Generator[None, None, None]:
    """Gradients as they are where nobody turned them off; also a decorator."""
    with torch.inference_mode(False), torch.enable_grad():
        yield
