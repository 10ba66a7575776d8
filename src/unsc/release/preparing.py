"""Prepare a store: once after training, while all training data is at hand."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unsc.batches import Batch
from unsc.checks import is_whole, require
from unsc.datasets import Source, as_source, read
from unsc.errors import InvalidData, unknown
from unsc.layers import Layer
from unsc.loading.data import LoadedData
from unsc.loading.models import LoadedModel
from unsc.logits import all_logits
from unsc.models import editable_layers, working_copy
from unsc.progress import Progress, as_progress, quiet
from unsc.release.adding_up import measured_together
from unsc.release.canaries import Canaries
from unsc.release.loaded import load_both, outputs_of
from unsc.release.manifest import Manifest, Sample
from unsc.release.markers import Markers
from unsc.release.plan import Plan, plan_for
from unsc.release.shares import Member, Sharing, batch_size_for
from unsc.release.statistics import Statistics
from unsc.release.store import Contents, Store
from unsc.steps.together import Together
from unsc.storage.hashes import sha256_of_weights
from unsc.storage.versions import versions
from unsc.watch import softening
from unsc.wrappers import unwrapped

FIT, CHECK, GRADIENTS, ROWS_PER_COLUMN = 4096, 1024, 512, 32
"""About how many samples the moments to fit and to check and the gradients are made from, and rows for each column."""
_TIMED = 16
"""Samples that are timed for the estimate."""
_LOOKED_AT = 512
"""Samples that are kept in memory while a store is prepared."""
_USERS = ("user", "user_id")
"""Columns that say whose a sample is, unless the user names others."""
_BYTES_OF_AN_ENTRY = 110
"""Of a sample in the manifest, beside its id."""


@dataclass(frozen=True)
class Estimate:
    """What a store will take."""

    seconds: float
    bytes: int
    samples: int
    """Training samples that statistics are made from, of all in the data."""


@dataclass(frozen=True)
class Preparation:
    """A store that can be made: everything is loaded and was checked, nothing is written."""

    model: LoadedModel
    data: LoadedData
    weights: str
    """The file of the weights; empty if they came with the model."""
    transform: str
    columns: tuple[str, ...]
    canaries: int
    """How many samples to keep in the store."""
    salt: str

    @cached_property
    def network(self) -> nn.Module:
        return working_copy(self.model.model)

    @cached_property
    def source(self) -> Source:
        return as_source(self.data.dataset, self.model.model, collate_fn=self.data.collate)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        return editable_layers(self.network, read(self.source, range(min(4, len(self.data)))))[0]

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        return self.data.class_names or tuple(map(str, range(outputs_of(self.model, self.data))))

    @cached_property
    def members(self) -> tuple[Member, ...]:
        labels = self.data.labels.tolist()
        return tuple(Member(i, id_, label) for i, (id_, label) in enumerate(zip(self.data.ids, labels, strict=True)))

    @cached_property
    def plan(self) -> Plan:
        counts = torch.bincount(self.data.labels, minlength=len(self.class_names)).tolist()
        sizes = {"fit": FIT, "check": CHECK, "sensitivity": GRADIENTS, "rows_per_column": ROWS_PER_COLUMN}
        return plan_for(tuple(counts), self.salt, **sizes)

    @cached_property
    def looked_at(self) -> Batch:
        """Some samples of all classes: those to check, and others where these are few."""
        checked = {m.id for m in self.members if self.plan.role(m.id, m.label) == "check"}
        if not checked:
            raise InvalidData(f"{self.data.spec} has {len(self.data)} samples, too few to check anything on; add some")
        order = sorted(self.members, key=lambda m: (m.id not in checked, self.plan.uniform(m.id, "look")))
        return read(self.source, [m.position for m in order[:_LOOKED_AT]])

    @cached_property
    def sharing(self) -> Sharing:
        few = [(m.id, read(self.source, [m.position])) for m in self.members[:4]]
        size = batch_size_for(self.network, self.layers, self.plan, few)
        with torch.no_grad():
            temperature = softening(all_logits(self.network, self.looked_at.for_model(self.network)).float())
        return Sharing(self.network, self.layers, self.plan, temperature, size)

    def estimate(self) -> Estimate:
        """From a few samples that are timed, and from the shapes of layers."""
        by_role = self.sharing.roles(self.members)
        taken = {role: len(found) for role, found in by_role.items()}
        some = {role: found[:_TIMED] for role, found in by_role.items()}
        seconds = 0.0
        for role, members in some.items():
            began = time.perf_counter()
            self.sharing.of(self.source, members)
            seconds += (time.perf_counter() - began) * taken[role] / max(1, len(members))
        began = time.perf_counter()
        for member in self.members[:_TIMED]:
            self.data.fingerprint(member.position)
        seconds += (time.perf_counter() - began) * len(self.data) / min(_TIMED, len(self.data))
        moments = 2 * 4 * sum(x.groups * x.columns**2 for x in self.layers)
        entries = sum(map(len, self.data.ids)) + _BYTES_OF_AN_ENTRY * len(self.data)
        kept = min(self.canaries, len(self.data)) * _size_of(self.looked_at) // len(self.looked_at)
        return Estimate(seconds, moments + entries + kept, sum(taken.values()))

    def make(self, out: str | Path, *, progress: Progress | bool = quiet) -> Store:
        """Write the store into a folder that holds nothing yet; it appears once it is whole."""
        shown = as_progress(progress)
        sums = self.sharing.of(self.source, self.members, progress=shown)
        if min(sums.samples.values()) < 1:
            raise InvalidData(f"{self.data.spec} has too few samples for statistics ({sums.samples}); add some")
        alone = Together.alone(len(self.layers))
        found = Statistics.of(sums, self.plan, self.sharing.batch_size, self.sharing.temperature, alone)
        together = measured_together(self.network, self.layers, found, self.looked_at, len(self.class_names))
        contents = Contents(self._manifest(shown), replace(found, together=together), self._canaries(), Markers.none())
        return Store.create(out, contents)

    def _manifest(self, progress: Progress) -> Manifest:
        samples: dict[str, Sample] = {}
        with progress("hashes", len(self.members)) as advance:
            for member in self.members:
                samples[member.id] = Sample(member.label, self.data.fingerprint(member.position))
                advance()
        return Manifest(
            model=self.model.spec,
            original=self.weights,
            weights=sha256_of_weights(unwrapped(self.model.model).inner.state_dict()),
            data=self.data.spec,
            transform=self.transform,
            class_names=self.class_names,
            gone=(),
            samples=samples,
            columns={name: _by_value(self.data.ids, self.data.column(name)) for name in self.columns},
            packages=_packages(),
        )

    def _canaries(self) -> Canaries:
        """As many of each class as of any other, where they can be."""
        if not self.canaries:
            return Canaries.none()
        turns: dict[int, int] = {}
        order: list[tuple[int, Member]] = []
        for member in sorted(self.members, key=lambda m: self.plan.uniform(m.id, "canary")):
            turns[member.label] = turns.get(member.label, 0) + 1
            order.append((turns[member.label], member))
        chosen = [m for _, m in sorted(order, key=lambda pair: (pair[0], pair[1].position))[: self.canaries]]
        return Canaries(read(self.source, [m.position for m in chosen]), tuple(m.id for m in chosen))


def plan_store(
    model: str,
    *,
    data: str,
    weights: str | Path | None = None,
    canaries: int = 0,
    columns: Sequence[str] | None = None,
    transform: str | None = None,
    workers: int = 0,
    search: str | Path = ".",
    salt: str | None = None,
) -> Preparation:
    """Load a model and the data that it was trained on, and see what a store of them takes.

    Model, weights, data, transform, workers and search are as for `load_model` and `load_data`. `canaries` are samples
    to keep in the store, to measure on when a request comes. `columns` say whose a sample is, for requests by user; by
    default `user` or `user_id`, if the data has it. `salt` decides which samples are drawn; at random by default.
    """
    require("canaries", canaries, "a whole number of at least 0", is_whole(canaries, 0))
    network, loaded = load_both(model, weights, data, transform=transform, workers=workers, search=search)
    if columns is None:
        columns = [name for name in _USERS if name in loaded.columns]
    for name in columns:
        if name not in loaded.columns:
            raise unknown("column", name, loaded.columns)
    network = replace(network, spec=_absolute(model))
    loaded = replace(loaded, spec=_absolute(data))
    file = "" if weights is None else str(Path(weights).absolute())
    return Preparation(network, loaded, file, transform or "", tuple(columns), canaries, salt or secrets.token_hex(16))


def _absolute(spec: str) -> str:
    """A file or folder wherever a later command runs; an import path as it is."""
    return str(Path(spec).absolute()) if Path(spec).exists() else spec


def _by_value(ids: Sequence[str], values: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for id_, value in zip(ids, values, strict=True):
        if value:
            found.setdefault(value, []).append(id_)
    return {value: tuple(own) for value, own in found.items()}


def _packages() -> dict[str, str]:
    return versions() | {name: metadata.version(name) for name in ("numpy", "safetensors")}


def _size_of(batch: Batch) -> int:
    inputs: Any = batch.inputs
    parts = inputs.values() if isinstance(inputs, dict) else inputs if isinstance(inputs, (tuple, list)) else [inputs]
    return sum(t.numel() * t.element_size() for t in parts if torch.is_tensor(t))
