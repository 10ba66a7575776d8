"""Models and data that users bring: weights in a file, code by its import path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn
from torch.utils.data import Dataset

from unsc.errors import InvalidData, InvalidRequest, UnscError, UnsupportedModel
from unsc.imports import import_callable
from unsc.samples import check_map_style


def bring_model(network: str, weights: Path) -> nn.Module:
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


def made_by(path: str) -> Any:
    """What the user's callable `package.module:callable` gives, called without arguments."""
    make = import_callable(path)
    try:
        return make()
    except UnscError:
        raise
    except Exception as e:  # whatever the user's code may raise
        raise InvalidRequest(f"{path}() failed ({type(e).__name__}: {e}); it must work without arguments") from e


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


def bring_data(name: str) -> tuple[Dataset, Dataset]:
    """Training and test data: of a scenario by its name, or of a function `package.module:function`."""
    from unsc.compare.scenario import Scenario, scenario

    if ":" not in name:
        found = scenario(name)
        return found.train, found.test
    made = made_by(name)
    if isinstance(made, Scenario):
        return made.train, made.test
    if not isinstance(made, tuple) or len(made) != 2:
        raise InvalidRequest(f"{name} returned a {type(made).__name__}; it must return (train, test), two data sets")
    for dataset in made:
        check_map_style(dataset)
    return made
