"""What is at hand when a request comes: the samples to forget, and perhaps others to measure on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import nn

from unsc.batches import Batch, join, pieces
from unsc.datasets import Source, as_source, read
from unsc.errors import InvalidData, listing
from unsc.evaluation.side_by_side import Part
from unsc.loading.data import LoadedData
from unsc.release.canaries import Canaries
from unsc.release.manifest import Manifest, Resolved
from unsc.release.markers import Marker, Markers
from unsc.release.shares import Member
from unsc.request import of_classes
from unsc.targets.records import FEWEST

WatchedOn: TypeAlias = Literal["validation", "canaries", "nothing"]
"""Where retained samples are from that predictions are watched on."""

_MOST_UNSEEN, _MOST_WATCHED, _BATCH = 1024, 512, 64


@dataclass(frozen=True)
class Forgotten:
    """The samples that a request is about, found in data that may lack all others."""

    source: Source
    members: tuple[Member, ...]
    """In the order of the request's ids."""
    prints: tuple[str, ...]
    """Their fingerprints."""

    @property
    def part(self) -> Part:
        positions, labels = ([getattr(m, name) for m in self.members] for name in ("position", "label"))
        return Part(self.source, torch.tensor(positions), torch.tensor(labels))

    def read_some(self) -> Batch:
        """A few, to see how the network takes them."""
        return read(self.source, [m.position for m in self.members[:4]])

    def read(self) -> Batch:
        return join([read(self.source, part) for part in _parts([m.position for m in self.members])])


@dataclass(frozen=True)
class Former:
    """Samples that earlier requests deleted and that somebody still has: what they should no longer be."""

    batch: Batch | None
    markers: tuple[Marker, ...]


@dataclass(frozen=True)
class Unseen:
    """Samples that the network was not trained on."""

    part: Part | None
    """Where they are; None if there are none."""
    batch: Batch | None
    """The same, read."""
    overlapping: int
    """Samples that were left out: the network was trained on them, or their classes are gone."""


@dataclass(frozen=True)
class AtHand:
    """All samples that a request may look at."""

    forgotten: Forgotten
    former: Former
    unseen: Unseen
    watched_on: WatchedOn
    watched: list[Batch]
    """Retained samples, in batches."""
    trained: tuple[Batch, ...]
    """Canaries: the network was trained on them."""


def find_forgotten(data: LoadedData, model: nn.Module, resolved: Resolved, manifest: Manifest) -> Forgotten:
    """The samples of a request, by id, or by hash where ids are not what they were; all of them must be there."""
    places = {id_: i for i, id_ in enumerate(data.ids)}
    wanted = {id_: manifest.samples[id_].fingerprint for id_ in resolved.ids}
    found = {id_: places[id_] for id_, print_ in wanted.items() if _is(data, places.get(id_), print_)}
    if len(found) < len(wanted):
        taken = set(found.values())
        by_hash = {data.fingerprint(i): i for i in range(len(data)) if i not in taken}
        found |= {id_: by_hash[p] for id_, p in wanted.items() if id_ not in found and p in by_hash}
    if missing := [id_ for id_ in resolved.ids if id_ not in found]:
        raise InvalidData(
            f"{len(missing)} of {len(wanted)} samples to forget are not in {data.spec}, or are not what they were: "
            f"{listing(missing)}. What is to be forgotten must be at hand; name where it is (--data)"
        )
    members = tuple(Member(found[id_], id_, manifest.samples[id_].label) for id_ in resolved.ids)
    if wrong := [m.id for m in members if int(data.labels[m.position]) != m.label]:
        raise InvalidData(f"{listing(wrong)} in {data.spec} have another label than when the store was prepared")
    source = as_source(data.dataset, model, collate_fn=data.collate)
    return Forgotten(source, members, tuple(wanted[id_] for id_ in resolved.ids))


def find_former(data: LoadedData, model: nn.Module, manifest: Manifest, markers: Markers) -> Former:
    """What earlier requests deleted and the data still has: among samples that the manifest does not know."""
    others = [i for i, id_ in enumerate(data.ids) if id_ not in manifest.samples] if len(markers) else []
    among = markers.among([data.fingerprint(i) for i in others])
    if not among:
        return Former(None, ())
    source = as_source(data.dataset, model, collate_fn=data.collate)
    batch = join([read(source, part) for part in _parts([others[i] for i, _ in among])])
    return Former(batch, tuple(marker for _, marker in among))


def find_unseen(data: LoadedData, model: nn.Module, manifest: Manifest, markers: Markers, *, seed: int) -> Unseen:
    """Up to 1,024 validation samples of classes that are not gone, none of which is or was training data."""
    drawn = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))[:_MOST_UNSEEN].tolist()
    known = {sample.fingerprint for sample in manifest.samples.values()}
    prints = [data.fingerprint(i) for i in drawn]
    former = {i for i, _ in markers.among(prints)}
    gone = of_classes(data.labels, manifest.gone)
    fresh = [i for j, i in enumerate(drawn) if prints[j] not in known and j not in former and not gone[i]]
    left_out = len(drawn) - len(fresh)
    if len(fresh) < FEWEST:
        raise InvalidData(
            f"{len(fresh)} validation samples in {data.spec}, after {left_out} were left out that are training data or "
            f"of classes that are gone; give at least {FEWEST}, or leave --validation out"
        )
    source = as_source(data.dataset, model, collate_fn=data.collate)
    part = Part(source, torch.tensor(fresh), data.labels[fresh])
    return Unseen(part, join([read(source, some) for some in _parts(fresh)]), left_out)


def to_watch(unseen: Unseen, canaries: Canaries, resolved: Resolved) -> tuple[WatchedOn, list[Batch]]:
    """Retained samples, up to 512: of the validation data, else the canaries, else none."""
    left = canaries.without(resolved.ids)
    choices: tuple[tuple[WatchedOn, Batch | None], ...] = (
        ("validation", unseen.batch),
        ("canaries", left.batch if len(left) else None),
    )
    for where, batch in choices:
        if batch is None:
            continue
        stays = (~of_classes(batch.labels, resolved.classes)).nonzero().flatten()[:_MOST_WATCHED]
        if len(stays):
            return where, list(pieces(batch[stays], _BATCH))
    return "nothing", []


def _is(data: LoadedData, place: int | None, fingerprint: str) -> bool:
    return place is not None and data.fingerprint(place) == fingerprint


def _parts(positions: Sequence[int]) -> list[list[int]]:
    return [list(positions[i : i + _BATCH]) for i in range(0, len(positions), _BATCH)]
