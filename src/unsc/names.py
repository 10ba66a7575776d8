"""Classes by name: from where data sets and models say what their classes are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

from torch import nn
from torch.utils.data import ConcatDataset

from unsc.batches import LABEL_KEYS
from unsc.errors import InvalidRequest, unknown
from unsc.wrappers import without_wrappers


def numbered(
    classes: object, *, model: nn.Module, data: Iterable[object] = (), label_key: str | None = None
) -> list[object]:
    """`classes` with every name replaced by its number; what is no name stays as it is. A name alone is one class.

    Names are looked up in each of the `data` (`class_to_idx`, `classes`, a `ClassLabel` feature) and in the model
    (`config.id2label`).
    """
    try:
        given: list[object] = [classes] if isinstance(classes, str) else list(classes)  # type: ignore[call-overload]
    except TypeError:  # a single number
        given = [classes]
    if not any(isinstance(one, str) for one in given):
        return given
    known = [found for source in data if (found := names_in_data(source, label_key))]
    known += [found] if (found := _names_in_model(model)) else []
    return [_number(one, known) if isinstance(one, str) else one for one in given]


def names_in_data(dataset: Any, label_key: str | None = None) -> dict[str, int]:
    """What a data set calls its classes, and their numbers; empty if it does not say."""
    if isinstance(numbers := getattr(dataset, "class_to_idx", None), Mapping):
        return {str(name): int(number) for name, number in numbers.items()}
    features = getattr(dataset, "features", None)
    if isinstance(features, Mapping):  # Hugging Face
        for key in LABEL_KEYS if label_key is None else (label_key,):
            if _are_names(names := getattr(features.get(key), "names", None)):
                return {name: i for i, name in enumerate(names)}
    if _are_names(names := getattr(dataset, "classes", None)):
        return {name: i for i, name in enumerate(names)}
    if isinstance(dataset, ConcatDataset):
        return names_in_data(dataset.datasets[0], label_key)
    inside = getattr(dataset, "dataset", None)  # a subset, a loader
    return names_in_data(inside, label_key) if inside is not None else {}


def _names_in_model(model: nn.Module) -> dict[str, int]:
    names = getattr(getattr(without_wrappers(model).inner, "config", None), "id2label", None)
    return {str(name): int(number) for number, name in names.items()} if isinstance(names, Mapping) else {}


def _are_names(names: object) -> TypeGuard[list[str]]:
    return isinstance(names, (list, tuple)) and len(names) > 0 and all(isinstance(name, str) for name in names)


def _number(name: str, known: list[dict[str, int]]) -> int:
    if not known:
        raise InvalidRequest(
            f"the class {name!r} is a name, but neither the data (.classes, .class_to_idx, a ClassLabel feature) nor "
            "the model (config.id2label) says what its classes are called; give numbers"
        )
    numbers = {names[name] for names in known if name in names}
    if not numbers:
        raise unknown("class", name, dict.fromkeys(one for names in known for one in names))
    if len(numbers) > 1:
        raise InvalidRequest(
            f"the class {name!r} has the numbers {sorted(numbers)} in the data and in the model's config.id2label; "
            "they must agree: correct one of them, or give the number"
        )
    return numbers.pop()
