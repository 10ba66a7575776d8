"""What the last layer sees, in two dimensions, before and after unlearning, with and without what is forgotten."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from sklearn.neighbors import NearestNeighbors
from torch import nn

from unsc.batches import Batch
from unsc.errors import InvalidRequest
from unsc.features import layer_inputs
from unsc.logits import all_logits
from unsc.models import working_copy
from unsc.storage.files import write_whole

Embed: TypeAlias = Callable[[np.ndarray, "np.ndarray | None"], np.ndarray]
"""Features (n, values), and places (n, 2) to start from if there are any, to places (n, 2)."""

_NEIGHBOURS = 15
"""UMAP's own default."""


def umap_embedding(features: np.ndarray, start: np.ndarray | None) -> np.ndarray:
    """UMAP with its default settings and seed 0. McInnes, Healy, Melville, arXiv 2018."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that TensorFlow, which nothing here uses, is not installed
        try:
            from umap import UMAP  # type: ignore[import-not-found]
        except ImportError as e:
            raise InvalidRequest(
                "the figure of the latent space needs UMAP, which is not installed: pip install 'unsc[figures]'"
            ) from e
        init: Any = "spectral" if start is None else start
        return UMAP(n_neighbors=_NEIGHBOURS, random_state=0, n_jobs=1, init=init).fit_transform(features)


def measure(
    original: nn.Module,
    unlearned: nn.Module,
    retrained: nn.Module,
    samples: Batch,
    *,
    classes: tuple[int, ...],
    embed: Embed = umap_embedding,
) -> dict[str, Any]:
    """Places of test `samples` in four embeddings, and numbers that need none.

    The unlearned network's start from the original's places, so that what did not change stays where it was; an
    embedding is free up to turns and folds, and two that start apart cannot be compared. The numbers, for the retrained
    network too: accuracy, and the mean share, in the features themselves, of a sample's 15 nearest neighbours that are
    of its own class, both 0 to 1.
    """
    labels = samples.labels.cpu()
    gone = torch.isin(labels, torch.tensor(classes)).numpy()
    networks = {"original": original, "unlearned": unlearned, "retrained": retrained}
    features = {name: list(layer_inputs(model, samples).values())[-1].numpy() for name, model in networks.items()}
    panels: dict[str, Any] = {}
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


def draw(content: dict[str, Any], path: Path) -> None:
    """Two by two: original and unlearned, with all samples and with the retained ones alone; forgotten are red."""
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 8.0), layout="constrained")
    grid = figure.subplots(2, 2, sharex="row", sharey="row")
    forgotten = set(content["forgotten"])
    kept = sorted({k for panel in content["panels"].values() for k in panel["labels"]} - forgotten)
    # Nine strong and nine pale colours, none of them red; beyond 18 classes they are used again.
    palette = [c for i, c in enumerate(colormaps["tab20"].colors) if i not in (6, 7)]  # type: ignore[attr-defined]
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
    FigureCanvasAgg(figure)
    write_whole(path, lambda p: figure.savefig(p, dpi=150))


def _label(k: int, forgotten: set[int]) -> str:
    return f"{k} (forgotten)" if k in forgotten else str(k)


def _title(panel: str, content: dict[str, Any]) -> str:
    network, _, shown = panel.partition(", ")
    part = "forgotten" if shown == "all" else "retained"
    first = "all samples" if shown == "all" else "without the forgotten"
    return f"{network}, {first}\n{part}: {_numbers(content, network, part)}"


def _numbers(content: dict[str, Any], network: str, part: str) -> str:
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
    nearest = NearestNeighbors(n_neighbors=count).fit(features).kneighbors(return_distance=False)
    return (labels[nearest] == labels[:, None]).mean(axis=1)
