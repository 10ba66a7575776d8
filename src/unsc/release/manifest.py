"""What a store is of: a network, and every sample that it was trained on and still may know, by id and hash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from unsc.checks import is_whole
from unsc.errors import InvalidData, InvalidRequest, listing
from unsc.release.strict import Fields
from unsc.storage.files import read_json, write_json
from unsc.storage.hashes import is_sha256

_KIND, _VERSION = "unsc manifest", 1
_NAMES = (
    "model", "original", "weights", "data", "transform", "class_names", "gone", "samples", "columns", "packages",
)  # fmt: skip


class Sample(NamedTuple):
    """What is kept of a training sample."""

    label: int
    fingerprint: str
    """SHA-256 of its bytes in the data that it came from."""


@dataclass(frozen=True)
class Resolved:
    """What a request comes to: whole classes, or records of classes that stay."""

    classes: tuple[int, ...]
    """Ascending; empty for records."""
    ids: tuple[str, ...]
    """Every training sample that goes: all samples of the classes, or the records."""


@dataclass(frozen=True)
class Manifest:
    """What a store is of."""

    model: str
    """Where the network comes from: `package.module:factory`, or a folder."""
    original: str
    """The file of the weights that the store was prepared with; empty if there was none."""
    weights: str
    """SHA-256 of its weights (`storage.hashes.sha256_of_weights`), those that were released last."""
    data: str
    """Where its training data came from."""
    transform: str
    """`package.module:function` that made tensors of it; empty if none was given."""
    class_names: tuple[str, ...]
    """One for each output of the network."""
    gone: tuple[int, ...]
    """Classes that earlier requests made it forget, ascending."""
    samples: dict[str, Sample]
    """Training samples by id; those that were deleted are not among them."""
    columns: dict[str, dict[str, tuple[str, ...]]]
    """By the name of a column, as in `user`, and its value: the ids of the samples that have it."""
    packages: dict[str, str]
    """Versions of what the store was prepared with."""

    def __post_init__(self) -> None:
        _check(self)

    @property
    def counts(self) -> tuple[int, ...]:
        """Samples of each class."""
        found = Counter(sample.label for sample in self.samples.values())
        return tuple(found[k] for k in range(len(self.class_names)))

    def of_classes(self, classes: Collection[int]) -> tuple[str, ...]:
        """The ids of all samples of these classes."""
        return tuple(id_ for id_, sample in self.samples.items() if sample.label in classes)

    def copies(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Other samples that are the same as one of these, byte for byte."""
        asked = set(ids)
        same = {self.samples[id_].fingerprint for id_ in asked if id_ in self.samples}
        return tuple(i for i, sample in self.samples.items() if sample.fingerprint in same and i not in asked)

    def after(self, request: Resolved, weights: str) -> Manifest:
        """Without what a request deletes, for the network that was released for it."""
        unknown = [id_ for id_ in request.ids if id_ not in self.samples]
        if unknown:
            raise InvalidRequest(f"the store has no sample {listing(unknown)}; it may be deleted already")
        deleted = set(request.ids)
        samples = {id_: sample for id_, sample in self.samples.items() if id_ not in deleted}
        columns = {name: _without(values, deleted) for name, values in self.columns.items()}
        gone = tuple(sorted({*self.gone, *request.classes}))
        return replace(self, weights=weights, gone=gone, samples=samples, columns=columns)

    def save(self, path: Path) -> None:
        """Write a JSON file that `Manifest.load` reads."""
        content: dict[str, Any] = {"kind": _KIND, "version": _VERSION}
        content |= {name: getattr(self, name) for name in _NAMES}
        write_json(path, content)

    @classmethod
    def load(cls, path: Path) -> Manifest:
        found = Fields.of(read_json(path), str(path), kind=_KIND, version=_VERSION, names=_NAMES)
        samples = found.mapping("samples", "[label, sha256] each", _is_sample)
        columns = found.mapping("columns", "objects of lists of ids", _is_column)
        packages = found.mapping("packages", "texts", lambda value: isinstance(value, str))
        return cls(
            model=found.text("model"),
            original=found.text("original"),
            weights=found.text("weights"),
            data=found.text("data"),
            transform=found.text("transform"),
            class_names=found.texts("class_names"),
            gone=found.wholes("gone"),
            samples={id_: Sample(*values) for id_, values in samples.items()},
            columns={name: {v: tuple(ids) for v, ids in values.items()} for name, values in columns.items()},
            packages=packages,
        )


def _check(manifest: Manifest) -> None:
    """Whether its parts agree with each other, wherever they are from."""
    classes, samples = len(manifest.class_names), manifest.samples
    if not is_sha256(manifest.weights):
        raise InvalidData(f"the manifest's weights are {manifest.weights!r:.80}; they must be a SHA-256")
    if classes < 2 or len(set(manifest.class_names)) < classes:
        names = listing(manifest.class_names)
        raise InvalidData(f"the manifest's class names are {names}; it needs at least two, all different")
    if list(manifest.gone) != sorted({k for k in manifest.gone if k < classes}):
        raise InvalidData(f"the manifest's gone classes are {manifest.gone}; they must be among 0 to {classes - 1}")
    if wrong := [i for i, s in samples.items() if not 0 <= s.label < classes or s.label in manifest.gone]:
        raise InvalidData(f"samples {listing(wrong)} of the manifest are of no class that it has")
    if wrong := [i for i, s in samples.items() if not is_sha256(s.fingerprint)]:
        raise InvalidData(f"samples {listing(wrong)} of the manifest have no SHA-256")
    named = {id_ for values in manifest.columns.values() for ids in values.values() for id_ in ids}
    if strange := sorted(named - samples.keys()):
        raise InvalidData(f"columns of the manifest name the samples {listing(strange)}, which it does not have")


def _without(values: Mapping[str, tuple[str, ...]], deleted: Collection[str]) -> dict[str, tuple[str, ...]]:
    """A column without deleted samples, and without values that no sample has any more."""
    left = {value: tuple(id_ for id_ in ids if id_ not in deleted) for value, ids in values.items()}
    return {value: ids for value, ids in left.items() if ids}


def _is_sample(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and is_whole(value[0], 0) and isinstance(value[1], str)


def _is_column(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(ids, list) and all(isinstance(id_, str) for id_ in ids) for ids in value.values()
    )
