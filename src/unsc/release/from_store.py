"""Make a candidate from a store and the forgotten samples alone: the `make` of `release.handle`."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import nn

from unsc.batches import Batch, pieces
from unsc.errors import GuessedTargetsWarning, InvalidData, InvalidRequest, listing
from unsc.loading.code import is_import_path
from unsc.loading.data import LoadedData
from unsc.loading.models import LoadedModel, load_model
from unsc.models import editable_layers
from unsc.options import CompletedOptions, Options
from unsc.progress import Progress, quiet
from unsc.reference import Reference, default_targets
from unsc.release.at_hand import AtHand, Forgotten, Unseen, find_forgotten, find_former, find_unseen, to_watch
from unsc.release.candidate import Made
from unsc.release.carried import Carried
from unsc.release.loaded import load_others
from unsc.release.manifest import Manifest, Resolved
from unsc.release.rule import StoredRule
from unsc.release.shares import Sharing
from unsc.release.statistics import Statistics
from unsc.release.store import Contents, Store
from unsc.request import Request
from unsc.run import carry_out, prepared, split_for
from unsc.start import Start
from unsc.steps.budgeted import BudgetedRule
from unsc.storage.hashes import sha256_of_weights
from unsc.task import RetainFit, Samples
from unsc.validation import Validation
from unsc.wrappers import unwrapped

_NOT_SERVED = (
    "copies", "near_copies", "samples_per_class", "min_retained", "label_key", "chunk_bytes", "drop_outputs",
)  # fmt: skip
"""Options that are about retained data or about finding samples in it, or that change the shape of a layer."""


@dataclass(frozen=True)
class FromStore:
    """Makes candidates for the requests of a store."""

    store: Path
    data: str | None = None
    """Where the samples to forget are; by default where the store's data was."""
    validation: str | None = None
    """Data that the network was not trained on."""
    weights: Path | None = None
    """The weights that the store was prepared with, if they are no longer where they were."""
    workers: int = 0
    search: Path = Path(".")
    options: Mapping[str, Any] = field(default_factory=dict)
    """Those of `unsc.forget` that a run from a store has use for."""
    progress: Progress = quiet

    def __call__(self, resolved: Resolved, parent: Path | None) -> Made:
        began = time.perf_counter()
        chosen = self._chosen()  # a mistake is said before anything is read
        store = Store(self.store)
        manifest = store.manifest
        network = self._network(manifest, parent)
        at_hand = self._at_hand(network, store, resolved, chosen.seed)
        start = replace(Start.of(network.model, progress=self.progress), began=began)
        forgotten = at_hand.forgotten
        share = _sharing(start.original, store.statistics, forgotten).of(forgotten.source, forgotten.members)
        statistics = store.statistics.without(share)
        request = _request(resolved, manifest)
        whole = forgotten.read()
        options = _completed(chosen, statistics, request, at_hand, len(whole))
        samples = _samples(request, whole, at_hand, options)
        guide = prepared(options, self.progress)
        result = carry_out(start, request, samples, options, guide, reference=_reference(at_hand))
        carried = Carried(manifest, resolved, at_hand, samples, whole, start.original, result)
        return self._made(store, network, statistics, carried)

    def _network(self, manifest: Manifest, parent: Path | None) -> LoadedModel:
        """The model in force, whose weights must be those that the store tells of."""
        own_code = is_import_path(manifest.model)
        if parent is not None:
            spec, weights = (manifest.model, parent / "model.safetensors") if own_code else (str(parent), None)
        else:
            spec, weights = manifest.model, self.weights or (Path(manifest.original) if manifest.original else None)
        network = load_model(spec, weights, search=self.search)
        found = sha256_of_weights(unwrapped(network.model).inner.state_dict())
        if found != manifest.weights:
            raise InvalidData(
                f"the weights in {weights or spec} are not those that the store tells of (SHA-256 {manifest.weights}); "
                "put them back, or name where they are (--weights)"
            )
        return network

    def _chosen(self) -> Options:
        options = Options.from_keywords(dict(self.options))
        if not isinstance(options.step, BudgetedRule):
            raise InvalidRequest(f"a store serves the budgeted step alone; leave step={options.step.name} out")
        if unserved := [name for name in _NOT_SERVED if name in self.options]:
            raise InvalidRequest(f"a store does not serve the option {listing(unserved)}; leave it out")
        return options

    def _at_hand(self, network: LoadedModel, store: Store, resolved: Resolved, seed: int) -> AtHand:
        manifest, model = store.manifest, network.model

        def load(spec: str) -> LoadedData:
            source: dict[str, Any] = {"workers": self.workers, "search": self.search}
            transform = manifest.transform or None
            return load_others(spec, network, manifest.class_names, transform=transform, **source)

        data = load(self.data or manifest.data)
        forgotten = find_forgotten(data, model, resolved, manifest)
        unseen = Unseen(None, None, 0)
        if self.validation is not None:
            unseen = find_unseen(load(self.validation), model, manifest, store.markers, seed=seed)
        watched_on, watched = to_watch(unseen, store.canaries, resolved)
        left = store.canaries.without(resolved.ids)
        trained = tuple(pieces(left.batch)) if len(left) else ()
        former = find_former(data, model, manifest, store.markers)
        return AtHand(forgotten, former, unseen, watched_on, watched, trained)

    def _made(self, store: Store, network: LoadedModel, statistics: Statistics, carried: Carried) -> Made:
        resolved, result = carried.resolved, carried.result
        changed = unwrapped(result.model).inner
        digest = sha256_of_weights(changed.state_dict())
        contents = Contents(
            store.manifest.after(resolved, digest),
            statistics,
            store.canaries.without(resolved.ids),
            store.markers.add("class" if resolved.classes else "record", carried.to_mark()),
        )
        return Made(
            weights=digest,
            figures=carried.figures(),
            promise=carried.promise,
            drift=result.metrics.drift,
            config=result.options.to_dict() | {"retained_from": carried.at_hand.watched_on},
            report=carried.report(),
            shown=carried.shown(),
            save=lambda folder: network.write(folder, changed),
            save_store=lambda folder: contents.save(folder, generation=store.generation + 1),
        )


def _completed(
    options: Options, statistics: Statistics, request: Request, at_hand: AtHand, size: int
) -> CompletedOptions:
    """Options that leave nothing open, for so many samples, with a guide from the store."""
    options.check_used(request.kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuessedTargetsWarning)  # the promise says it
        targets = default_targets(options, request, _reference(at_hand))
    budget = options.step.budget if isinstance(options.step, BudgetedRule) else BudgetedRule.budget
    return replace(options, step=StoredRule(budget=budget, statistics=statistics)).completed(size, targets=targets)


def _sharing(model: nn.Module, statistics: Statistics, forgotten: Forgotten) -> Sharing:
    layers, _ = editable_layers(model, forgotten.read_some())
    statistics.check_layers(layers)
    return Sharing(model, layers, statistics.plan, statistics.temperature, statistics.batch_size)


def _request(resolved: Resolved, manifest: Manifest) -> Request:
    count = len(manifest.class_names)
    if resolved.classes:
        return Request.for_classes(resolved.classes, count, gone=manifest.gone)
    return Request.for_records(None, count, gone=manifest.gone)


def _reference(at_hand: AtHand) -> Reference:
    batch = at_hand.unseen.batch
    return Reference(Validation(() if batch is None else tuple(pieces(batch, 64)), at_hand.unseen.overlapping))


def _samples(request: Request, whole: Batch, at_hand: AtHand, options: CompletedOptions) -> Samples:
    learned, held_out = split_for(request, whole, options)
    unseen = _reference(at_hand).validation.batches if request.kind == "records" else ()
    return Samples(learned, held_out, RetainFit.none(), at_hand.watched, unseen, at_hand.trained)
