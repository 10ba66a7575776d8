"""Checkpoints of a training run: written whole, read without running code, and refused by another run."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unsc.bench.training.images import Images
from unsc.bench.training.protocol import Protocol
from unsc.errors import InvalidData, InvalidRequest
from unsc.storage.files import write_whole

_PARTS = {"identity", "model", "optimizer", "random", "history", "best"}


def identity(
    model: nn.Module, train: Images, validation: Images | None, protocol: Protocol, seed: int
) -> dict[str, str]:
    """What must be the same for a run to resume from a checkpoint, in words. The first weights are not part of it."""
    shapes = "\n".join(f"{name} {tuple(t.shape)}" for name, t in model.state_dict().items())
    digest = hashlib.sha256(shapes.encode()).hexdigest()[:12]
    size = sum(p.numel() for p in model.parameters())
    return {
        "network": f"{type(model).__name__} with {size:,} parameters, digest {digest}",
        "training data": train.describe(),
        "validation data": validation.describe() if validation is not None else "none",
        "seed": str(seed),
        **{f"protocol's {name}": str(value) for name, value in asdict(protocol).items()},
    }


def save_checkpoint(path: Path, content: Mapping[str, Any]) -> None:
    """Replace the checkpoint at `path`; if that fails, the earlier one stays."""
    packed = io.BytesIO()  # torch, when it writes to a file by itself, does not say why it could not
    torch.save(dict(content), packed)
    try:
        write_whole(path, lambda p: p.write_bytes(packed.getbuffer()))
    except OSError as e:
        raise InvalidRequest(
            f"cannot save the checkpoint {path} ({e}); free some space, or name a file elsewhere. An earlier "
            "checkpoint there is intact: the same call resumes from it"
        ) from e


def load_checkpoint(path: Path, expected: Mapping[str, str]) -> dict[str, Any] | None:
    """The content at `path`, None if there is no file; `expected` is the identity of the run that wants it."""
    if not path.exists():
        return None
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as e:  # a damaged or hostile file can raise anything
        reason = str(e).strip().partition("\n")[0]
        raise InvalidData(f"{path} is not a whole checkpoint ({reason:.200}); remove it to start again") from e
    if not isinstance(content, dict) or not content.keys() >= _PARTS:
        raise InvalidData(f"{path} is not a checkpoint of a training run; name another file, or remove it")
    found = content["identity"]
    differences = [
        f"{name} {found.get(name)}, here {value}" for name, value in expected.items() if found.get(name) != value
    ]
    if differences:
        raise InvalidData(
            f"{path} is a checkpoint of another run: {'; '.join(differences)}. "
            "Name another file, or remove this one to start again"
        )
    return content
