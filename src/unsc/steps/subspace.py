"""The paper's subspaces: a basis for each class, their merge, and the null space that they leave (Eqs. 7-11).

Merging needs neither activations nor the concatenated bases: the singular vectors of `[U_1 ... U_K]` are the
eigenvectors of `sum U_k U_k.T`, which is the moment of the basis vectors taken as rows.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar, overload

import torch
from torch import Tensor

from unsc import peers
from unsc.errors import EmptyNullSpace, InvalidData, InvalidRequest, listing
from unsc.moments import Moment, Moments
from unsc.request import Request
from unsc.steps.factors import LowRank, Matrix
from unsc.storage.files import load_tensors, save_tensors

K = TypeVar("K", bound=Hashable)
Energy = float | Mapping[str, float]
"""A share of the energy to keep, in (0, 1], for all layers or by layer name."""


def leading(moment: Moment, energy: float) -> tuple[Tensor, Tensor]:
    """The top eigenvectors that hold the share `energy` of a moment, and how many there are in each group.

    The rank is the smallest k with `||M_k|| >= energy * ||M||` (Eq. 10): the component that crosses the
    threshold is included. Returns (groups, columns, r) in float64, where groups of a lower rank than r are
    filled up with zero vectors, and ranks (groups,).
    """
    values, vectors, total = moment.holding(energy)
    total = total[:, None]
    # Without the margin, rounding decides whether energy = 1 keeps directions that hold nothing.
    reached = values.cumsum(dim=1) >= total * energy - 1e-12 * total
    ranks = torch.where(total[:, 0] > 0, values.shape[1] - reached.sum(dim=1) + 1, torch.zeros_like(reached.sum(dim=1)))
    kept = torch.arange(values.shape[1], device=ranks.device) < ranks[:, None]
    width = int(ranks.max())
    return (vectors * kept[:, None, :])[..., :width], ranks


class Merge:
    """Joins the bases of one class after another, in the memory of one moment of each layer."""

    def __init__(self) -> None:
        self._merged: dict[str, Moment] = {}
        self._classes: list[int] = []

    def add(self, label: int, bases: Mapping[str, Tensor]) -> None:
        """Add the basis (groups, columns, r) of a class in each layer."""
        self._classes.append(label)
        for name, basis in bases.items():
            self._merged.setdefault(name, Moment(basis.shape[0], basis.shape[1])).update(basis.mT)

    def total(self) -> Merge:
        """With what the other ranks have joined, each of them other classes."""
        whole = Merge()
        shapes: dict[str, tuple[int, int]] = {}
        for classes, found in peers.gathered((self._classes, self._shapes())):
            whole._classes += classes
            shapes |= found
        for name, owner in _owners(shapes).items():
            whole._merged[name] = self._merged.get(name, Moment(*shapes[name])).total_at(owner)
        return whole

    def null_space(self, merge_energy: Energy, settings: Mapping[str, object]) -> NullSpace:
        """What the classes leave free; `settings` are noted with it. Ranks share the layers."""

        def work(name: str) -> tuple[Tensor, tuple[int, ...]]:
            basis, rank = leading(self._merged[name], energy_of(merge_energy, name, "merge_energy"))
            return basis.float(), tuple(rank.tolist())

        found = peers.worked_out(_owners(self._shapes()), work)
        bases = {name: basis for name, (basis, _) in found.items()}
        ranks = {name: rank for name, (_, rank) in found.items()}
        noted = {**settings, "merge_energy": _plain(merge_energy)}
        return NullSpace(bases, ranks, tuple(sorted(self._classes)), noted)

    def _shapes(self) -> dict[str, tuple[int, int]]:
        return {name: (moment.groups, moment.columns) for name, moment in self._merged.items()}


def _owners(shapes: Mapping[K, tuple[int, int]]) -> dict[K, int]:
    """Which rank decomposes which moment, by (groups, columns)."""
    return peers.owners({key: groups * float(columns) ** 3 for key, (groups, columns) in shapes.items()})


def class_basis(moments: Mapping[str, Moment], energy: Energy) -> dict[str, Tensor]:
    """One class's basis in each layer: the top eigenvectors of its moment that hold the share `energy`."""
    return {name: leading(moment, energy_of(energy, name, "energy"))[0] for name, moment in moments.items()}


@dataclass(frozen=True)
class ClassBases:
    """Each class's basis in each layer (Algorithm 1): float64 (groups, columns, r)."""

    by_class: dict[int, dict[str, Tensor]]
    energy: Energy
    num_classes: int

    def null_space(self, retain: Iterable[int], *, merge_energy: Energy = 0.99) -> NullSpace:
        """What the classes `retain` leave free, without another look at the classes' moments."""
        classes = sorted(set(retain))
        missing = [k for k in classes if k not in self.by_class]
        if missing or not classes:
            raise InvalidRequest(
                f"no basis for the retained classes {listing(missing) or '(none given)'}; "
                f"there are bases for {listing(self.by_class)}"
            )
        merge = Merge()
        for k in classes:
            merge.add(k, self.by_class[k])
        return merge.null_space(merge_energy, {"energy": _plain(self.energy)})


@peers.joined()
def class_bases(moments: Moments, *, energy: Energy = 0.97) -> ClassBases:
    """Every class's basis: the top eigenvectors of its moment that hold the share `energy`."""
    every = {(k, name): moment for k, of_class in moments.by_class.items() for name, moment in of_class.items()}

    def work(key: tuple[int, str]) -> Tensor:
        return leading(every[key], energy_of(energy, key[1], "energy"))[0]

    found = peers.worked_out(_owners({key: (m.groups, m.columns) for key, m in every.items()}), work)
    bases = {k: {name: found[k, name] for name in of_class} for k, of_class in moments.by_class.items()}
    return ClassBases(bases, energy, moments.num_classes)


@peers.joined()
def null_space(
    moments: Moments, *, retain: Iterable[int], energy: Energy = 0.97, merge_energy: Energy = 0.99
) -> NullSpace:
    """The null space of the classes that stay: class bases that hold `energy`, merged to hold `merge_energy`."""
    return class_bases(moments, energy=energy).null_space(retain, merge_energy=merge_energy)


@dataclass(frozen=True)
class NullSpace:
    """The retained basis U of each layer; the null space is its orthogonal complement."""

    bases: dict[str, Tensor]
    """(groups, columns, r), orthonormal columns, filled up with zeros where a group has a lower rank."""
    ranks: dict[str, tuple[int, ...]]
    retain: tuple[int, ...]
    settings: dict[str, object] = field(default_factory=dict)

    @overload
    def project(self, name: str, displacement: LowRank) -> LowRank: ...
    @overload
    def project(self, name: str, displacement: Tensor) -> Tensor: ...
    def project(self, name: str, displacement: Matrix) -> Matrix:
        """`D - (D U) U.T`: the part of D (groups, outputs, columns) that no retained row can see."""
        if isinstance(displacement, LowRank):  # it acts on as many rows as there are samples
            return LowRank(displacement.left, self.project(name, displacement.right))
        basis = self.bases[name]
        return displacement - displacement @ basis @ basis.mT

    def free(self) -> dict[str, int]:
        """How many directions each layer has left, all groups together."""
        return {name: sum(u.shape[1] - r for r in self.ranks[name]) for name, u in self.bases.items()}

    def check_not_empty(self) -> None:
        """Raise unless some layer has a free direction."""
        full = [name for name, free in self.free().items() if free == 0]
        if len(full) == len(self.bases):
            raise EmptyNullSpace(
                f"the classes that stay fill every direction of every layer ({listing(full)}), so the paper's step "
                'cannot move anything. Use step="budgeted", or lower energy and merge_energy'
            )

    def layer_names(self) -> Collection[str]:
        return self.bases.keys()

    def check(self, request: Request, labels: Tensor) -> None:
        """Raise if it protects a class that is to be forgotten, or leaves nothing free."""
        both = sorted({*self.retain} & {*request.classes})
        if both:
            raise InvalidRequest(
                f"the null space retains class {listing(both)}, which is to be forgotten; make it without"
            )
        self.check_not_empty()

    def to(self, *args: object, **kwargs: object) -> NullSpace:
        """On another device or in another precision, like `Tensor.to`."""
        return replace(self, bases={n: u.to(*args, **kwargs) for n, u in self.bases.items()})  # type: ignore[arg-type]

    def of_groups(self, groups: Mapping[str, slice]) -> NullSpace:
        """Of some groups of each layer alone."""
        return replace(self, bases={name: self.bases[name][chosen] for name, chosen in groups.items()})

    def save(self, path: str | Path) -> None:
        """Write a safetensors file that `NullSpace.load` reads."""
        metadata = {"kind": "null_space", "ranks": self.ranks, "retain": self.retain, "settings": self.settings}
        save_tensors(Path(path), self.bases, metadata)

    @classmethod
    def load(cls, path: str | Path) -> NullSpace:
        bases, metadata = load_tensors(Path(path))
        if metadata.get("kind") != "null_space":
            raise InvalidData(f"{path} holds a {metadata.get('kind')}, not a null space; load it with its own class")
        ranks = {name: tuple(r) for name, r in metadata["ranks"].items()}
        return cls({name: bases[name] for name in ranks}, ranks, tuple(metadata["retain"]), metadata["settings"])


@dataclass(frozen=True)
class NullSpaces(Mapping[int, NullSpace]):
    """For records: a null space for the samples of each label, which protects all other classes (Algorithm 2)."""

    by_label: dict[int, NullSpace]

    def __getitem__(self, label: int) -> NullSpace:
        return self.by_label[label]

    def __iter__(self) -> Iterator[int]:
        return iter(self.by_label)

    def __len__(self) -> int:
        return len(self.by_label)

    def layer_names(self) -> Collection[str]:
        return next(iter(self.by_label.values())).layer_names()

    def check(self, request: Request, labels: Tensor) -> None:
        """Raise if a record's label has no null space, or one that leaves nothing free."""
        missing = sorted(set(labels.tolist()) - set(self.by_label))
        if missing:
            raise InvalidRequest(
                f"no null space is given for records of class {listing(missing)}; give one for each label"
            )
        for space in self.by_label.values():
            space.check(request, labels)


def energy_of(energy: Energy, layer: str, option: str) -> float:
    """The share that a layer's basis is to hold; `option` is its name in a message."""
    if isinstance(energy, Mapping) and layer not in energy:
        raise InvalidRequest(f"{option} names no layer {layer}, only {listing(energy)}; name every layer")
    value = energy[layer] if isinstance(energy, Mapping) else energy
    if not 0 < value <= 1:
        raise InvalidRequest(f"{option}={value} for layer {layer}; give a share of the energy above 0 and at most 1")
    return value


def _plain(energy: Energy) -> object:
    return dict(energy) if isinstance(energy, Mapping) else energy
