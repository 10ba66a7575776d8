"""The inputs of the last layer in two dimensions, before and after unlearning, with and without forgotten samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import nn

from unsc.batches import Batch
from unsc.bench.figures.shared.figure import FIGURES, Content, NetworkFigure
from unsc.bench.figures.shared.subject import Subject
from unsc.compare.canvas import canvas, save
from unsc.datasets import read
from unsc.extras import need
from unsc.features import layer_inputs
from unsc.logits import all_logits
from unsc.models import working_copy
from unsc.request import of_classes

Embed: TypeAlias = Callable[[np.ndarray, "np.ndarray | None"], np.ndarray]
"""Features (n, values), and places (n, 2) to start from if there are any, to places (n, 2)."""

_NEIGHBOURS = 15
"""UMAP's own default."""
_SAMPLES = 2000
"""Test samples that are shown."""


def umap_embedding(features: np.ndarray, start: np.ndarray | None) -> np.ndarray:
    """UMAP with its default settings and seed 0. McInnes, Healy, Melville, arXiv 2018."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that TensorFlow, which nothing here uses, is not installed
        umap = need("umap", extra="figures")
        init = "spectral" if start is None else start
        return umap.UMAP(n_neighbors=_NEIGHBOURS, random_state=0, n_jobs=1, init=init).fit_transform(features)


def measure(
    original: nn.Module,
    unlearned: nn.Module,
    retrained: nn.Module,
    samples: Batch,
    *,
    classes: tuple[int, ...],
    embed: Embed = umap_embedding,
) -> Content:
    """Places of test `samples` in four embeddings, and numbers that need none.

    The unlearned network's start from the original's places, so that what did not change stays where it was; an
    embedding is free up to turns and folds, and two that start apart cannot be compared. The numbers, for the retrained
    network too: accuracy, and the mean share, in the features themselves, of a sample's 15 nearest neighbours that are
    of its own class, both 0 to 1.
    """
    labels = samples.labels.cpu()
    gone = of_classes(labels, classes).numpy()
    networks = {"original": original, "unlearned": unlearned, "retrained": retrained}
    features = {name: list(layer_inputs(model, samples).values())[-1].numpy() for name, model in networks.items()}
    panels: dict[str, Content] = {}
    for part, shown in (("all", np.ones_like(gone)), ("retained", ~gone)):
        places = None
        for name in ("original", "unlearned"):
            places = embed(features[name][shown], places)
            panels[f"{name}, {part}"] = {
                "x": [round(float(x), 2) for x in places[:, 0]],
                "y": [round(float(y), 2) for y in places[:, 1]],
                "labels": labels[torch.from_numpy(shown)].tolist(),
            }
    own = {name: _own_class(values, labels.numpy()) for name, values in features.items()}
    right = {name: _right(model, samples) for name, model in networks.items()}
    return {
        "forgotten": list(classes),
        "samples": len(samples),
        "neighbours": {name: _two(share, gone) for name, share in own.items()},
        "accuracy": {name: _two(hits, gone) for name, hits in right.items()},
        "panels": panels,
    }


def of_subject(subject: Subject) -> Content:
    """Some test samples, and the settings that the network was unlearned with."""
    data = subject.scenario
    size = len(data.labels("test"))
    some = torch.randperm(size, generator=torch.Generator().manual_seed(0))[:_SAMPLES]
    unlearned, samples = subject.unlearned, read(data.test, some.tolist())
    found = measure(subject.original, unlearned, subject.retrained, samples, classes=subject.trial.classes)
    return {"settings": subject.applied.settings} | found


def draw(content: Content, path: Path) -> None:
    """Two by two: original and unlearned, with all samples and with the retained ones alone; forgotten are red."""
    colormaps = need("matplotlib", extra="figures").colormaps
    figure = canvas(8.4, 8.0)
    grid = figure.subplots(2, 2, sharex="row", sharey="row")
    forgotten = set(content["forgotten"])
    kept = sorted({k for panel in content["panels"].values() for k in panel["labels"]} - forgotten)
    # Nine strong and nine pale colours, none of them red; beyond 18 classes they are used again.
    palette = [c for i, c in enumerate(colormaps["tab20"].colors) if i not in (6, 7)]
    order = [*range(0, 18, 2), *range(1, 18, 2)]
    colours = {k: palette[order[i % 18]] for i, k in enumerate(kept)} | dict.fromkeys(forgotten, "#c0392b")
    for axes, (name, panel) in zip(grid.flat, content["panels"].items(), strict=True):
        for k in (*kept, *sorted(forgotten)):
            chosen = [i for i, label in enumerate(panel["labels"]) if label == k]
            if chosen:
                x, y = ([panel[c][i] for i in chosen] for c in ("x", "y"))
                first = axes is grid[0, 0] and (len(kept) <= 20 or k in forgotten)
                axes.scatter(x, y, s=4, color=colours[k], linewidths=0, label=_label(k, forgotten) if first else None)
        axes.set_title(_title(name, content), fontsize=9)
        axes.set(xticks=[], yticks=[])
    reference = "; ".join(f"{part}: {_numbers(content, 'retrained', part)}" for part in ("forgotten", "retained"))
    figure.suptitle(f"What the last layer sees. For comparison, the retrained network:\n{reference}", fontsize=9)
    figure.legend(loc="outside lower center", ncols=10, frameon=False, fontsize=8, markerscale=3, handletextpad=0.1)
    save(figure, path)


def _label(k: int, forgotten: set[int]) -> str:
    return f"{k} (forgotten)" if k in forgotten else str(k)


def _title(panel: str, content: Content) -> str:
    network, _, shown = panel.partition(", ")
    part = "forgotten" if shown == "all" else "retained"
    first = "all samples" if shown == "all" else "without the forgotten"
    return f"{network}, {first}\n{part}: {_numbers(content, network, part)}"


def _numbers(content: Content, network: str, part: str) -> str:
    accuracy, share = (content[what][network][part] for what in ("accuracy", "neighbours"))
    return f"accuracy {100 * accuracy:.0f} %, neighbours of the same class {100 * share:.0f} %"


def _two(values: np.ndarray, gone: np.ndarray) -> dict[str, float]:
    """Means over the forgotten and over the retained samples."""
    return {"forgotten": float(values[gone].mean()), "retained": float(values[~gone].mean())}


@torch.no_grad()
def _right(model: nn.Module, samples: Batch) -> np.ndarray:
    """Which samples are classified right, bool (n,)."""
    working = working_copy(model)
    batch = samples.for_model(working)
    return (all_logits(working, batch).argmax(dim=1) == batch.labels).cpu().numpy()


def _own_class(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """For each sample the share of its nearest neighbours that are of its class, (n,)."""
    count = min(_NEIGHBOURS, len(features) - 1)
    neighbors = need("sklearn.neighbors", extra="eval")
    nearest = neighbors.NearestNeighbors(n_neighbors=count).fit(features).kneighbors(return_distance=False)
    return (labels[nearest] == labels[:, None]).mean(axis=1)


FIGURES.add(NetworkFigure("latent", of_subject, draw))
