"""Classifiers in folders that `transformers` saved: of images with their processor, of texts with their tokenizer.

Nothing is downloaded, and code in the folder is not run.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from unsc.errors import InvalidData, UnscError, UnsupportedModel, listing
from unsc.extras import need
from unsc.loading.models import LoadedModel
from unsc.loading.weights import filled

EXTRA = "hugging-face"
_LOCAL: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
_LONGEST = 1_000_000
"""Tokenizers without a limit say that they take 1e30 tokens."""


@dataclass(frozen=True)
class Processed:
    """A PIL image as the model's own processor makes it: a dict of tensors."""

    processor: Any

    def __call__(self, image: Any) -> dict[str, Tensor]:
        made = self.processor(image.convert("RGB"), return_tensors="pt")
        return {name: values[0] for name, values in made.items()}


@dataclass(frozen=True)
class Tokenized:
    """A text as the model's own tokenizer makes it: a dict of lists, no longer than the model takes."""

    tokenizer: Any
    longest: int | None

    def __call__(self, text: str) -> dict[str, list[int]]:
        cut: dict[str, Any] = {} if self.longest is None else {"truncation": True, "max_length": self.longest}
        return dict(self.tokenizer(text, **cut))


def load_folder(folder: Path, weights: Path | None) -> LoadedModel:
    """The classifier in a folder; `weights` take the place of its own."""
    if not (folder / "config.json").is_file():
        raise InvalidData(f"{folder} has no config.json; give a folder that save_pretrained wrote")
    transformers = need("transformers", extra=EXTRA)
    config = _read(transformers.AutoConfig, folder, "its config.json")
    made_as = [str(name) for name in getattr(config, "architectures", None) or ()]
    if any(name.endswith("ForImageClassification") for name in made_as):
        need("PIL", extra="images")
        model = _network(transformers.AutoModelForImageClassification, folder)
        tool = _read(transformers.AutoImageProcessor, folder, "its image processor")
        transform, takes, collate = Processed(tool), "images", None
    elif any(name.endswith("ForSequenceClassification") for name in made_as):
        model = _network(transformers.AutoModelForSequenceClassification, folder)
        tool = _read(transformers.AutoTokenizer, folder, "its tokenizer")
        if tool.pad_token is None:
            raise UnsupportedModel(
                f"the tokenizer in {folder} has no padding token, so that texts of different lengths make no batch; "
                "set tokenizer.pad_token and model.config.pad_token_id, and save both again"
            )
        transform, takes = Tokenized(tool, _longest(tool, config)), "texts"
        collate = transformers.DataCollatorWithPadding(tool)
    else:
        raise UnsupportedModel(
            f"{folder} holds {listing(made_as) or 'a model of no known kind'}; give a classifier of images "
            "(...ForImageClassification) or of texts (...ForSequenceClassification)"
        )
    if weights is not None:
        model = filled(model, weights, name=str(folder))

    def write(part: Path, changed: nn.Module) -> None:
        network: Any = changed
        with _no_bars():
            network.save_pretrained(part)
        tool.save_pretrained(part)

    return LoadedModel(model.eval(), str(folder), _names(config), transform, takes, collate, write)


def _network(kind: Any, folder: Path) -> Any:
    """A network all of whose weights were in the folder: the library makes up those that are missing."""
    model, found = _read(kind, folder, "its weights", output_loading_info=True)
    missing = sorted(map(str, found["missing_keys"]))
    if missing:
        raise InvalidData(f"the weights in {folder} lack {listing(missing)}; give a classifier that was trained")
    return model


@contextmanager
def _no_bars() -> Generator[None, None, None]:
    """The library shows bars of its own, for a moment each."""
    logging = need("transformers.utils.logging", extra=EXTRA)
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _read(kind: Any, folder: Path, what: str, **more: Any) -> Any:
    try:
        with _no_bars():
            return kind.from_pretrained(str(folder), **_LOCAL, **more)
    except UnscError:
        raise
    except Exception as e:  # damaged files make the library raise anything
        said = " ".join(str(e).split())
        raise InvalidData(
            f"transformers cannot load {what} from {folder} ({type(e).__name__}: {said:.300}); save model and "
            "processor or tokenizer there by save_pretrained. Code in the folder is not run"
        ) from e


def _names(config: Any) -> tuple[str, ...] | None:
    """What the model calls its classes; None for the names that the library makes up."""
    names = getattr(config, "id2label", None)
    if not isinstance(names, Mapping) or sorted(map(int, names)) != list(range(len(names))):
        return None
    found = tuple(str(names[k]) for k in sorted(names, key=int))
    return None if all(re.fullmatch(r"LABEL_\d+", name) for name in found) else found


def _longest(tokenizer: Any, config: Any) -> int | None:
    """Tokens that the model takes at most; None where nobody says."""
    for found in (tokenizer.model_max_length, getattr(config, "max_position_embeddings", None)):
        if isinstance(found, int) and 0 < found < _LONGEST:
            return found
    return None
