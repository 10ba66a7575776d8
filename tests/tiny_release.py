"""A store of four clouds of points, a network that knows them, and what it takes to release one that does not."""

from __future__ import annotations

import hashlib
import warnings
from functools import cache
from pathlib import Path

import torch
from blobs import CLASSES, blobs, learned, network
from safetensors.torch import load_file
from torch import nn
from torch.utils.data import Subset

import unsc
from unsc.batches import Batch
from unsc.errors import GuessedTargetsWarning
from unsc.release.canaries import Canaries
from unsc.release.candidate import Made
from unsc.release.manifest import Manifest, Resolved, Sample
from unsc.release.markers import Markers
from unsc.release.plan import plan_for
from unsc.release.policy import LIMITS, Figure, Policy
from unsc.release.statistics import Statistics
from unsc.release.store import Contents, Store
from unsc.steps.together import Together
from unsc.storage.files import save_tensors
from unsc.storage.hashes import sha256_of_weights

NAMES = ("ant", "bee", "cat", "dog")
EACH = 20
DATA = blobs(EACH)
POLICY = Policy(limits={**LIMITS, "forget_acc": 5.0, "retained_kl": 10.0}, required=("forget_acc", "retained_kl"))
"""What these tests are about is not how little so small a network loses."""


@cache
def trained() -> nn.Module:
    return learned(network(), DATA)


def make_store(folder: Path) -> Path:
    """A store whose samples are `s0` to `s79`; `s1` is a copy of `s0`, and user `ann` has three of three classes."""
    points, labels = DATA.tensors
    hashes = [hashlib.sha256(point.numpy().tobytes()).hexdigest() for point in points]
    hashes[1] = hashes[0]
    samples = {f"s{i}": Sample(int(k), hashes[i]) for i, k in enumerate(labels)}
    users = {"ann": ("s5", "s25", "s45"), "bob": ("s6",)}
    manifest = Manifest(
        model="tiny_release:trained",
        original="",
        weights=sha256_of_weights(trained().state_dict()),
        data="tiny",
        transform="",
        class_names=NAMES,
        gone=(),
        samples=samples,
        columns={"user": users},
        packages={},
    )
    canaries = Canaries(Batch(points[::20], labels[::20]), ("s0", "s20", "s40", "s60"))
    Store.create(folder, Contents(manifest, _statistics(), canaries, Markers.none()))
    return folder


def _statistics() -> Statistics:
    """Of no use: the network of these tests forgets with its data at hand."""
    plan = plan_for((EACH,) * CLASSES, "salt", fit=9, check=9, sensitivity=9, rows_per_column=16)
    moment = torch.eye(4)[None]
    samples = {"fit": 7, "check": 2, "fisher": 2}
    return Statistics(plan, 64, 1.5, {"fc": moment}, {"fc": moment}, {"fc": 0.25}, samples, Together.alone(1))


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
