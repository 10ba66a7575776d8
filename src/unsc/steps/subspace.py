"""The paper's subspaces: a basis for each class, their merge, and the null space that they leave (Eqs. 7-11).

Merging needs neither activations nor the concatenated bases: the singular vectors of `[U_1 ... U_K]` are the
eigenvectors of `sum U_k U_k.T`, which is the moment of the basis vectors taken as rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from unsc.errors import EmptyNullSpace, InvalidData, InvalidRequest, listing
from unsc.moments import Moment, Moments
from unsc.storage.files import load_tensors, save_tensors

Energy = float | Mapping[str, float]
"""A share of the energy to keep, in (0, 1], for all layers or by layer name."""


def leading(moment: Moment, energy: float) -> tuple[Tensor, Tensor]:
    """The top eigenvectors that hold the share `energy` of a moment, and how many there are in each group.

    The rank is the smallest k with `||M_k|| >= energy * ||M||` (Eq. 10): the component that crosses the
    threshold is included. Returns (groups, columns, r) in float64, where groups of a lower rank than r are
    filled up with zero vectors, and ranks (groups,).
    """
    values, vectors = moment.spectrum()
    total = values.sum(dim=1, keepdim=True)
    # Without the margin, rounding decides whether energy = 1 keeps directions that hold nothing.
    reached = values.cumsum(dim=1) >= total * energy - 1e-12 * total
    ranks = torch.where(total[:, 0] > 0, values.shape[1] - reached.sum(dim=1) + 1, torch.zeros_like(reached.sum(dim=1)))
    kept = torch.arange(values.shape[1], device=ranks.device) < ranks[:, None]
    width = int(ranks.max())
    return (vectors * kept[:, None, :])[..., :width], ranks


@dataclass(frozen=True)
class ClassBases:
    """Each class's basis in each layer (Algorithm 1): float64 (groups, columns, r)."""

    by_class: dict[int, dict[str, Tensor]]
    energy: Energy
    num_classes: int

    def null_space(self, retain: Iterable[int], *, merge_energy: Energy = 0.99) -> NullSpace:
        """What the classes `retain` leave free, without another look at the classes' moments."""
        classes = tuple(sorted(set(retain)))
        missing = [k for k in classes if k not in self.by_class]
        if missing or not classes:
            raise InvalidRequest(
                f"no basis for the retained classes {listing(missing) or '(none given)'}; "
                f"there are bases for {listing(self.by_class)}"
            )
        bases, ranks = {}, {}
        for name, first in self.by_class[classes[0]].items():
            merged = Moment(first.shape[0], first.shape[1])
            for k in classes:
                merged.update(self.by_class[k][name].mT)
            basis, rank = leading(merged, _energy(merge_energy, name, "merge_energy"))
            bases[name] = basis.float()
            ranks[name] = tuple(rank.tolist())
        energies = {"energy": _plain(self.energy), "merge_energy": _plain(merge_energy)}
        return NullSpace(bases, ranks, classes, energies)


def class_bases(moments: Moments, *, energy: Energy = 0.97) -> ClassBases:
    """Every class's basis: the top eigenvectors of its moment that hold the share `energy`."""
    bases = {
        k: {name: leading(moment, _energy(energy, name, "energy"))[0] for name, moment in of_class.items()}
        for k, of_class in moments.by_class.items()
    }
    return ClassBases(bases, energy, moments.num_classes)


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

    def project(self, name: str, displacement: Tensor) -> Tensor:
        """`D - (D U) U.T`: the part of D (groups, outputs, columns) that no retained row can see."""
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

    def to(self, *args: object, **kwargs: object) -> NullSpace:
        """On another device or in another precision, like `Tensor.to`."""
        return replace(self, bases={n: u.to(*args, **kwargs) for n, u in self.bases.items()})  # type: ignore[arg-type]

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


def _energy(energy: Energy, layer: str, option: str) -> float:
    if isinstance(energy, Mapping) and layer not in energy:
        raise InvalidRequest(f"{option} names no layer {layer}, only {listing(energy)}; name every layer")
    value = energy[layer] if isinstance(energy, Mapping) else energy
    if not 0 < value <= 1:
        raise InvalidRequest(f"{option}={value} for layer {layer}; give a share of the energy above 0 and at most 1")
    return value


def _plain(energy: Energy) -> object:
    return dict(energy) if isinstance(energy, Mapping) else energy
