"""Models and data that users bring: weights in a file, code by its import path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn

from unsc.errors import InvalidData, UnsupportedModel
from unsc.loading.code import made_by


def load_model(network: str, weights: Path) -> nn.Module:
    """The network that `package.module:callable` makes, with the weights of a file, in evaluation mode."""
    model = made_by(network)
    if not isinstance(model, nn.Module):
        raise UnsupportedModel(f"{network} returned a {type(model).__name__}; it must return a torch.nn.Module")
    state = read_weights(weights)
    try:
        model.load_state_dict(state)
    except RuntimeError as e:
        raise InvalidData(f"{weights} does not fit {network}: {e}") from e
    return model.eval()


def read_weights(path: Path) -> dict[str, Any]:
    """The tensors of a .safetensors file, or of a file by torch.save that holds nothing but tensors."""
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as e:
        raise InvalidData(f"there is no file {path}; give the weights of the model") from e
    except Exception as e:  # a damaged pickle can make its reader raise anything
        raise InvalidData(
            f"cannot read {path} ({type(e).__name__}): it is damaged, or holds more than tensors. Give a .safetensors "
            "file, or what torch.save(model.state_dict(), ...) wrote"
        ) from e
    state = content.get("state_dict", content) if isinstance(content, dict) else content
    if not isinstance(state, dict) or not all(torch.is_tensor(v) for v in state.values()):
        raise InvalidData(f"{path} holds no state dict; save model.state_dict()")
    return state
