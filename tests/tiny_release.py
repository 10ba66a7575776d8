"""A store of four clouds of points, a network that knows them, and what it takes to release one that does not."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch
from blobs import blobs, learned, network
from safetensors.torch import load_file
from torch import nn
from torch.utils.data import Subset, TensorDataset

import unsc
from unsc.errors import GuessedTargetsWarning
from unsc.release.candidate import Made
from unsc.release.manifest import Resolved
from unsc.release.policy import LIMITS, Figure, Policy
from unsc.release.preparing import plan_store
from unsc.release.store import Contents, Store
from unsc.storage.files import save_tensors
from unsc.storage.hashes import sha256_of_weights

NAMES = ("ant", "bee", "cat", "dog")
EACH = 20
POLICY = Policy(limits={**LIMITS, "forget_acc": 5.0, "retained_kl": 10.0}, required=("forget_acc", "retained_kl"))
"""What these tests are about is not how little so small a network loses."""


def _data() -> TensorDataset:
    """The second point is a copy of the first."""
    points, labels = blobs(EACH).tensors
    points[1] = points[0]
    return TensorDataset(points, labels)


DATA = _data()
IDS = tuple(f"s{i}" for i in range(len(DATA)))
USERS = tuple({5: "ann", 25: "ann", 45: "ann", 6: "bob"}.get(i, "") for i in range(len(DATA)))


@cache
def trained() -> nn.Module:
    return learned(network(), DATA)


def write_data(path: Path, positions: Sequence[int] = range(len(DATA))) -> Path:
    """Points with ids `s0` to `s79` and users, as an .npz."""
    chosen = list(positions)
    points, labels = (t[chosen].numpy() for t in DATA.tensors)
    ids, users = (np.array([own[i] for i in chosen]) for own in (IDS, USERS))
    np.savez(path, x=points, y=labels, classes=np.array(NAMES), id=ids, user=users)
    return path


def write_weights(path: Path) -> Path:
    save_tensors(path, trained().state_dict(), {})
    return path


def make_store(folder: Path) -> Path:
    """A store whose samples are `s0` to `s79`; `s1` is a copy of `s0`, and user `ann` has three of three classes.

    The data and the weights that it was made of are not there any more.
    """
    with tempfile.TemporaryDirectory() as name:
        weights, data = write_weights(Path(name) / "original.safetensors"), write_data(Path(name) / "data.npz")
        plan_store("blobs:network", weights=weights, data=str(data), canaries=4, salt="salt").make(folder)
    return folder


class Forgetting:
    """Makes candidates for a store, with `unsc.forget` and all data at hand."""

    def __init__(self, store: Path) -> None:
        self.store = store

    def __call__(self, resolved: Resolved, parent: Path | None) -> Made:
        store = Store(self.store)
        weights = _forgotten(resolved, store.manifest.gone, None if parent is None else parent / "model.safetensors")
        state, metrics = weights
        digest = sha256_of_weights(state)
        contents = Contents(
            store.manifest.after(resolved, digest),
            store.statistics,
            store.canaries.without(resolved.ids),
            store.markers,
        )
        return Made(
            weights=digest,
            figures={
                "forget_acc": Figure(metrics.forget_acc, 0.0, 100.0, 20),
                "retained_kl": Figure(metrics.retained_kl),
            },
            promise=metrics.promise,
            drift=metrics.drift,
            config={"seed": 0},
            report={"run": {"steps": metrics.steps}},
            save=lambda folder: save_tensors(folder / "model.safetensors", state, {}),
            save_store=lambda folder: contents.save(folder, generation=store.generation + 1),
        )


_made: dict[tuple[Resolved, tuple[int, ...], str], tuple[dict[str, torch.Tensor], unsc.RunMetrics]] = {}


def _forgotten(
    resolved: Resolved, gone: tuple[int, ...], weights: Path | None
) -> tuple[dict[str, torch.Tensor], unsc.RunMetrics]:
    """Forgetting gives the same for the same, so that tests need it once."""
    model = network()
    model.load_state_dict(trained().state_dict() if weights is None else load_file(weights))
    key = resolved, gone, sha256_of_weights(model.state_dict())
    if key not in _made:
        stay = [i for i, k in enumerate(DATA.tensors[1].tolist()) if k not in gone]
        places = {f"s{i}": place for place, i in enumerate(stay)}
        wanted = {"classes": resolved.classes} if resolved.classes else {"indices": [places[i] for i in resolved.ids]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GuessedTargetsWarning)  # there are no unseen points beside records
            result = unsc.forget(model.eval(), Subset(DATA, stay), **wanted)  # type: ignore[arg-type]
        _made[key] = dict(result.model.state_dict()), result.metrics
    return _made[key]
