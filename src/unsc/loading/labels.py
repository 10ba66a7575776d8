"""Which number each class has: as the model says, else as the data does."""

from __future__ import annotations

import re
from collections.abc import Sequence

from unsc.errors import InvalidData, listing
from unsc.loading.records import Records

_DIGITS = 9
"""Of a class's number."""


def numbered_labels(
    records: Records, known: tuple[str, ...] | None, where: str
) -> tuple[list[int], tuple[str, ...] | None]:
    """Each sample's class by number, and the names of all classes if there are any.

    `known` are the names that the model gives its classes, in the order of their numbers: names in the data must be
    among them. Without them the data's own order counts, else the alphabet. Labels that are numbers stay what they
    are.
    """
    if known is not None and len(set(known)) < len(known):
        raise InvalidData(f"the model calls several classes by the same name ({listing(known)}); correct its id2label")
    if records.names is not None and len(set(records.names)) < len(records.names):
        raise InvalidData(f"{where} calls several classes by the same name ({listing(records.names)}); correct them")
    if all(isinstance(label, str) and re.fullmatch(r"\d+\.\d*", label) for label in records.labels):
        raise InvalidData(f"{where} has labels such as {records.labels[0]}; give whole numbers, or names")
    by_number = records.names is None and all(_is_number(label) for label in records.labels)
    if by_number and not (known and all(str(label) in known for label in records.labels)):
        return [_number(label, where) for label in records.labels], known
    given = [_name(label, records.names, where) for label in records.labels]
    names = known or records.names or tuple(sorted(set(given)))
    strange = sorted({*given, *(records.names or ())} - set(names))
    if strange:
        raise InvalidData(
            f"{where} has the classes {listing(strange)}, which the model does not know; it knows {listing(names)}. "
            "Rename them in one of the two"
        )
    numbers = {name: i for i, name in enumerate(names)}
    return [numbers[name] for name in given], names


def unique_ids(ids: Sequence[str] | None, size: int, where: str) -> Sequence[str]:
    """The ids of samples, checked to be one for each and all different; their numbers where they have none."""
    if ids is None:
        return [str(i) for i in range(size)]
    seen: set[str] = set()
    repeated = sorted({one for one in ids if one in seen or seen.add(one)})
    if repeated:
        raise InvalidData(f"{where} has the ids {listing(repeated)} more than once; each sample needs its own")
    if "" in seen:
        raise InvalidData(f"{where} has a sample whose id is empty; give each sample its own")
    return ids


def _name(label: str | int, names: tuple[str, ...] | None, where: str) -> str:
    if names is None or isinstance(label, str):
        return str(label)
    if not 0 <= label < len(names):
        raise InvalidData(f"{where} has the label {label} and names for 0 to {len(names) - 1}; remove such samples")
    return names[label]


def _number(label: str | int, where: str) -> int:
    """A label that is a number; no network has outputs for one of more digits."""
    if len(str(label)) > _DIGITS:
        raise InvalidData(f"{where} has the label {label!s:.40}; give numbers from 0, of at most {_DIGITS} digits")
    return int(label)


def _is_number(label: str | int) -> bool:
    return isinstance(label, int) or (label.isascii() and label.isdigit())
