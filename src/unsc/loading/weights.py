"""Load weights from a file into a network that the user's code makes."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import cast

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from unsc.dropped import DroppedOutputs
from unsc.errors import InvalidData, UnsupportedModel
from unsc.loading.code import made_by

_WRAPPERS = ("module", "_orig_mod")
"""What DataParallel, DistributedDataParallel and torch.compile put into the names of a network's weights."""


def make_network(network: str, weights: Path, *, search: Path = Path(".")) -> nn.Module:
    """The network that `package.module:callable` makes, with the weights in a file, in evaluation mode."""
    model = made_by(network, search=search)
    if not isinstance(model, nn.Module):
        raise UnsupportedModel(f"{network} returned a {type(model).__name__}; it must return a torch.nn.Module")
    return filled(model, weights, name=network).eval()


def filled(model: nn.Module, weights: Path, *, name: str) -> nn.Module:
    """`model`, which a message calls by this name, with the weights in a file.

    If outputs were dropped from the network whose weights these are, it comes in the labels before that, and never
    says those that were dropped: data keeps its labels.
    """
    state, dropped = read_weights(weights), _dropped(weights)
    model = dropped.drop(model) if dropped else model
    try:
        model.load_state_dict(_renamed(state, model.state_dict()))
    except RuntimeError as e:
        raise InvalidData(f"{weights} does not fit {name}: {e}") from e
    return dropped.restored(model) if dropped else model


def _dropped(path: Path) -> DroppedOutputs | None:
    """What the header of a file says of outputs that were dropped; nothing if it was not saved by a run."""
    if path.suffix != ".safetensors":
        return None
    with safe_open(path, framework="pt") as f:
        header = (f.metadata() or {}).get("unsc")
    try:
        said = json.loads(header).get("dropped_outputs") if header else None
        return DroppedOutputs.from_dict(said) if said else None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as e:
        raise InvalidData(f"the header of {path} cannot be read ({e!r}); it is damaged") from e


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file, or of a file by torch.save that holds nothing but tensors.

    Code in a file by torch.save is never run.
    """
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        content: object = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as e:
        raise InvalidData(f"there is no file {path}; give the weights of the model") from e
    except Exception as e:  # a damaged pickle can make its reader raise anything
        raise InvalidData(
            f"cannot read {path} ({type(e).__name__}): it is damaged, or holds more than tensors. Give a .safetensors "
            "file, or one that torch.save(model.state_dict(), ...) wrote"
        ) from e
    state = cast("dict[str, object]", content).get("state_dict", content) if isinstance(content, dict) else content
    tensors = cast("dict[object, object]", state) if isinstance(state, dict) else None
    if tensors is None or not all(isinstance(k, str) and isinstance(v, Tensor) for k, v in tensors.items()):
        raise InvalidData(f"{path} holds no state dict; save model.state_dict()")
    return cast("dict[str, Tensor]", tensors)


def _renamed(state: dict[str, Tensor], wanted: Collection[str]) -> dict[str, Tensor]:
    """The weights under the `wanted` names, if wrappers are all that their own names differ by; else as they are."""
    names, own = {_bare(name): name for name in wanted}, {*map(_bare, state)}
    # Files by PyTorch before 0.4.1 lack the counters of batch norm, which it makes up.
    lacking = {name for name in names.keys() - own if not name.endswith("num_batches_tracked")}
    if lacking or not own <= names.keys() or len(own) != len(state) or len(names) != len(wanted):
        return state
    return {names[_bare(name)]: tensor for name, tensor in state.items()}


def _bare(name: str) -> str:
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)
