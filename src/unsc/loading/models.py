"""A user's trained classifier: made by their own code, or a folder that `transformers` saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from torch import nn

from unsc.errors import InvalidRequest
from unsc.forms import Collate
from unsc.loading.code import is_import_path
from unsc.loading.weights import make_network
from unsc.storage.files import new_folder, save_tensors, writing
from unsc.storage.versions import versions
from unsc.wrappers import unwrapped

Kind: TypeAlias = Literal["images", "texts", "arrays", "rows"]
"""What raw samples are: PIL images, texts, numpy arrays, or dicts of what the model takes by name."""
Transform: TypeAlias = Callable[[Any], Any]
"""Takes a raw sample (a PIL image, a text, an array) and gives what goes into the model: a tensor or a dict of them."""
Write: TypeAlias = Callable[[Path, nn.Module], None]
"""Fills a folder with a model."""


@dataclass(frozen=True, repr=False)
class LoadedModel:
    """A classifier with what is known of its inputs and classes."""

    model: nn.Module
    """In evaluation mode."""
    spec: str
    """Where it came from."""
    class_names: tuple[str, ...] | None
    """By number; None where the model does not say."""
    transform: Transform | None
    """The model's own processor or tokenizer."""
    takes: Kind | None
    """What raw samples it is for."""
    collate: Collate | None
    """How samples that `transform` made become a batch; None stacks them."""
    write: Write
    """Writes a model of this kind into a folder that is there."""

    def __repr__(self) -> str:
        classes = f", {len(self.class_names)} named classes" if self.class_names else ""
        return f"<LoadedModel {self.spec}: {type(self.model).__name__}{classes}>"

    def save(self, folder: str | Path, model: nn.Module) -> Path:
        """Write a `model` of this kind into a new folder, all or nothing, in the form in which this one came.

        That is `model.safetensors`, or a folder that `from_pretrained` loads.
        """
        folder = Path(folder)
        with writing(folder), new_folder(folder) as part:
            self.write(part, unwrapped(model).inner)
        return folder


def load_model(spec: str, weights: str | Path | None = None, *, search: str | Path = ".") -> LoadedModel:
    """The model that `spec` names: `package.module:factory` with a file of `weights`, or a folder of `transformers`.

    The factory is called without arguments; its module may be in the folder `search`. Weights are a `.safetensors`
    file, or one by `torch.save` that holds tensors alone: code in it is never run. A folder of `transformers` holds an
    image or a text classifier with its processor or tokenizer; `weights` then take the place of its own.
    """
    path = None if weights is None else Path(weights)
    if Path(spec).is_dir():
        from unsc.loading.hugging_face import load_folder

        return load_folder(Path(spec), path)
    if not is_import_path(spec):
        raise InvalidRequest(
            f"the model {spec!r} is neither a folder that is there nor an import path; give a folder that "
            "save_pretrained wrote, or package.module:factory, as in app.net:build"
        )
    if path is None:
        raise InvalidRequest(f"{spec} makes a network without its trained weights; give their file (--weights)")
    network = make_network(spec, path, search=Path(search))
    return LoadedModel(network, spec, None, None, None, None, write_weights)


def write_weights(folder: Path, model: nn.Module) -> None:
    save_tensors(folder / "model.safetensors", model.state_dict(), {"kind": "model", "versions": versions()})
