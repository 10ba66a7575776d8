"""Copies of records among the data that stays: a record whose copy stays is not forgotten.

Exact copies have the same bytes. A sketch of each sample (`unsc.sketches`), in one pass over the data, says which ones
may have them; those are read once more, and a hash of their bytes decides. Near copies (a crop, another compression)
are found by what the original network makes of them: the inputs of its head point in almost the same direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc import peers
from unsc.batches import Batch, tensors_by_name
from unsc.datasets import Source, read_batches
from unsc.features import find_last_linear, head_inputs
from unsc.progress import Progress, quiet
from unsc.sketches import sketches

OnCopies: TypeAlias = Literal["ignore", "report", "include"]
"""Do not look for copies; say where they are; or forget them together with their records."""

_BATCH = 256


@dataclass(frozen=True)
class Copies:
    """Copies of records, by the record's position in the data set: the positions of its copies that stay."""

    exact: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Samples whose inputs have the same bytes, whatever their label."""
    near: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Others of almost the same features."""
    looked_for: tuple[Literal["exact", "near"], ...] = ()
    included: bool = False
    """Whether they were forgotten as well."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Copies:
        """What was made of it by `dataclasses.asdict` and JSON, whose keys are strings and which has no tuples."""
        exact, near = ({int(i): tuple(own) for i, own in values[name].items()} for name in ("exact", "near"))
        return cls(exact, near, tuple(values["looked_for"]), values["included"])

    def without(self, positions: Iterable[int]) -> Copies:
        """Without copies at some positions."""
        others = set(positions)

        def left(found: dict[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
            kept = {i: tuple(j for j in own if j not in others) for i, own in found.items()}
            return {i: own for i, own in kept.items() if own}

        return replace(self, exact=left(self.exact), near=left(self.near))

    def copied(self) -> int:
        """How many records have copies that stay."""
        return 0 if self.included else len(self.exact.keys() | self.near.keys())

    def origins(self) -> dict[int, int]:
        """Every copy's position with that of a record it is a copy of, ascending."""
        found = [(c, r) for group in (self.near, self.exact) for r, own in group.items() for c in own]
        return dict(sorted(found))

    def note(self) -> str:
        """What was found, in words; empty if there is nothing to say."""
        count = len(self.origins())
        if not count:
            return ""
        if self.included:
            return f"{count} copies of records were found in the data and forgotten with them."
        return (
            f"{count} copies of records stay in the data, so those records are not forgotten; "
            "copies='include' forgets them too."
        )


def fingerprints(batch: Batch) -> list[bytes]:
    """A hash of every sample's inputs: of all their tensors, with type and shape. Labels do not count."""
    hashes = [sha256() for _ in range(len(batch))]  # which processors have instructions for
    for tensor in tensors_by_name(batch.inputs):
        kind = f"{tensor.dtype}{tuple(tensor.shape[1:])}".encode()
        flat = tensor.detach().cpu().reshape(len(batch), -1).contiguous().view(torch.uint8)
        for h, row in zip(hashes, flat.numpy(), strict=True):
            h.update(kind)
            h.update(row)
    return [h.digest() for h in hashes]


@dataclass(frozen=True)
class Sketched:
    """Some samples of a data set, and what tells quickly which of them may have the same inputs."""

    source: Source
    positions: Tensor
    """Where they are, int64 (n,)."""
    sketches: Tensor
    """int64 (n,)"""

    @classmethod
    def of(cls, source: Source, positions: Sequence[int] | None = None, *, progress: Progress = quiet) -> Sketched:
        """The samples at some `positions` of a data set, or all, in one pass over them."""
        chosen = torch.arange(len(source)) if positions is None else torch.tensor(positions, dtype=torch.long)
        found = [sketches(batch) for batch in _own_batches(source, chosen, progress)]
        own = torch.cat([*found, torch.zeros(0, dtype=torch.long)])
        return cls(source, chosen, torch.cat(peers.gathered(own)))

    def exact_copies(self, records: Iterable[int]) -> dict[int, tuple[int, ...]]:
        """For records at these positions, where samples with the same inputs stay; records without any left out."""
        chosen = torch.isin(self.positions, torch.tensor([*records], dtype=torch.long))
        others = torch.isin(self.sketches, self.sketches[chosen]) & ~chosen
        alike = torch.isin(self.sketches, self.sketches[others])
        prints = self._fingerprints(alike)
        where: dict[bytes, list[int]] = {}
        for i in self.positions[others].tolist():
            where.setdefault(prints[i], []).append(i)
        found = [i for i in self.positions[alike & chosen].tolist() if prints[i] in where]
        return {i: tuple(where[prints[i]]) for i in sorted(found)}

    def has(self, other: Sketched) -> Tensor:
        """Which of the `other` samples have the inputs of one of these, bool."""
        found = torch.isin(other.sketches, self.sketches)
        theirs = other._fingerprints(found)
        known = set(self._fingerprints(torch.isin(self.sketches, other.sketches)).values())
        same = [theirs[i] in known for i in other.positions[found].tolist()]
        return found.masked_scatter(found, torch.tensor(same, dtype=torch.bool))

    def _fingerprints(self, chosen: Tensor) -> dict[int, bytes]:
        """By position, those of the samples where a mask (n,) is true, which are read for it."""
        positions = self.positions[chosen]
        own = [one for batch in _own_batches(self.source, positions) for one in fingerprints(batch)]
        found = [one for of_rank in peers.gathered(own) for one in of_rank]
        return dict(zip(positions.tolist(), found, strict=True))


def _own_batches(source: Source, positions: Tensor, progress: Progress = quiet) -> Iterator[Batch]:
    """This rank's part of the samples at some positions, read to be compared."""
    # Sequences are filled up to the longest of their batch, so each is read by itself.
    size = 1 if source.form.collate is not None else _BATCH
    return _pass(source, positions[peers.own_part(len(positions))], size, "looking for copies", progress)


def near_copies(
    model: nn.Module,
    source: Source,
    records: Sequence[int],
    num_classes: int,
    *,
    least: float,
    progress: Progress = quiet,
) -> dict[int, tuple[int, ...]]:
    """For records at these positions, where samples stay whose features have a cosine of `least` with theirs.

    Features are what the head of `model`, in evaluation mode, is given. One forward pass over the data, and memory
    for the records' features and one batch's similarities to them.
    """
    chosen = torch.tensor(sorted(records))
    own = list(read_batches(source, chosen, size=_BATCH))
    head = find_last_linear(model, own[0], num_classes)
    centre = F.normalize(torch.cat([_flat(b) for b in head_inputs(model, head, own)]), dim=1)
    found: dict[int, list[int]] = {i: [] for i in chosen.tolist()}
    first = 0
    everything = _pass(source, torch.arange(len(source)), _BATCH, "looking for near copies", progress)
    for batch in head_inputs(model, head, everything):
        alike = F.normalize(_flat(batch), dim=1) @ centre.T >= least
        for row, column in alike.nonzero().tolist():
            if first + row not in found:
                found[int(chosen[column])].append(first + row)
        first += len(batch)
    return {i: tuple(others) for i, others in found.items() if others}


def _flat(batch: Batch) -> Tensor:
    return batch.inputs.float().flatten(1)


def _pass(source: Source, positions: Tensor, size: int, what: str, progress: Progress) -> Iterator[Batch]:
    with progress(what, -(-len(positions) // size)) as advance:
        for batch in read_batches(source, positions, size=size):
            yield batch
            advance()
