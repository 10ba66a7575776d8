"""A user's model and data, as they are named on the command line, checked to belong together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from unsc.datasets import as_source, read
from unsc.errors import InvalidData, listing
from unsc.loading.data import LoadedData, load_data
from unsc.loading.models import LoadedModel, load_model
from unsc.models import count_classes, working_copy


def load_both(
    model: str,
    weights: str | Path | None,
    data: str,
    *,
    transform: str | None = None,
    workers: int = 0,
    search: str | Path = ".",
) -> tuple[LoadedModel, LoadedData]:
    """A model and its training data, whose classes are those of the model."""
    network = load_model(model, weights, search=search)
    loaded = load_data(data, model=network, transform=transform, workers=workers, search=search)
    outputs = outputs_of(network, loaded)
    if loaded.class_names is not None and len(loaded.class_names) != outputs:
        raise InvalidData(
            f"{loaded.spec} has {len(loaded.class_names)} classes ({listing(loaded.class_names)}), and the model "
            f"{outputs} outputs, so that it is not known which class has which number; give the data the model was "
            "trained on (for a class without images, an empty folder)"
        )
    return network, loaded


def load_others(
    spec: str,
    network: LoadedModel,
    class_names: tuple[str, ...] | None,
    *,
    transform: str | None = None,
    workers: int = 0,
    search: str | Path = ".",
) -> LoadedData:
    """Other data for the same model: its classes have the numbers that `class_names` give them."""
    known = replace(network, class_names=class_names)
    own = transform if Path(spec).exists() else None  # a data set of the user's code makes its samples itself
    return load_data(spec, model=known, transform=own, workers=workers, search=search)


def outputs_of(model: LoadedModel, data: LoadedData) -> int:
    """How many classes the model has outputs for."""
    few = read(as_source(data.dataset, model.model, collate_fn=data.collate), range(min(4, len(data))))
    return count_classes(working_copy(model.model), few)
