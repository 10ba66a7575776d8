"""What a request comes to: which classes or records of the training data, as the store's manifest knows them."""

from __future__ import annotations

from collections import Counter

from unsc.errors import InvalidRequest, listing, unknown
from unsc.release.asked import CLASS, ID, Asked, number_of
from unsc.release.manifest import Manifest, Resolved


def resolve(asked: Asked, manifest: Manifest) -> Resolved:
    """The classes, or the records, that are asked for; whatever the manifest does not know is an error."""
    if asked.classes:
        classes = _classes(asked, manifest)
        return Resolved(classes, manifest.of_classes(classes))
    ids = _records(asked, manifest)
    _check_classes_stay(ids, manifest)
    return Resolved((), ids)


def _classes(asked: Asked, manifest: Manifest) -> tuple[int, ...]:
    found: set[int] = set()
    for name in asked.classes:
        number = number_of(name, manifest.class_names)
        if number is None:
            raise unknown("class", name, manifest.class_names)
        found.add(number)
    gone = [manifest.class_names[k] for k in sorted(found & {*manifest.gone})]
    if gone:
        raise InvalidRequest(f"the class {listing(gone)} was forgotten by an earlier request; leave it out")
    if len(found) + len(manifest.gone) >= len(manifest.class_names):
        raise InvalidRequest("all classes would be forgotten; at least one must stay")
    return tuple(sorted(found))


def _records(asked: Asked, manifest: Manifest) -> tuple[str, ...]:
    strange = [id_ for id_ in asked.ids if id_ not in manifest.samples]
    if strange:
        raise InvalidRequest(
            f"the store knows no sample {listing(strange)}; correct the ids, or leave out what was deleted already"
        )
    wanted = set(asked.ids)
    for column, value in asked.users:
        if column not in manifest.columns:
            raise unknown("column", column, (CLASS, ID, *manifest.columns))
        if value not in manifest.columns[column]:
            raise InvalidRequest(f"no sample of the store has {value!r} in the column {column!r}; correct it")
        wanted.update(manifest.columns[column][value])
    return tuple(id_ for id_ in manifest.samples if id_ in wanted)


def _check_classes_stay(ids: tuple[str, ...], manifest: Manifest) -> None:
    asked = Counter(manifest.samples[id_].label for id_ in ids)
    counts = manifest.counts
    whole = [manifest.class_names[k] for k, n in asked.items() if n == counts[k]]
    if whole:
        raise InvalidRequest(
            f"the records are all that the class {listing(whole)} has; ask for the class, in a request of its own"
        )
