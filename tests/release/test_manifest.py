"""A manifest comes back as it was, loses what is deleted, and is read strictly."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsc.errors import InvalidData, InvalidRequest, UnscError
from unsc.release.manifest import Manifest, Resolved, Sample


def test_it_comes_back_as_it_was(manifest: Manifest, tmp_path: Path) -> None:
    manifest.save(tmp_path / "m.json")
    assert Manifest.load(tmp_path / "m.json") == manifest


def test_what_is_deleted_is_nowhere_in_it(manifest: Manifest, tmp_path: Path) -> None:
    """Neither an id, nor its hash, nor a user of whom nothing is left."""
    manifest.after(Resolved((), ("s2", "s8", "s1")), "b" * 64).save(tmp_path / "m.json")
    text = (tmp_path / "m.json").read_text()
    for trace in ("s1", "s2", "s8", manifest.samples["s1"].fingerprint, manifest.samples["s2"].fingerprint, "bob"):
        assert f'"{trace}"' not in text
    assert '"ann"' in text


def test_a_class_that_was_deleted_is_gone(manifest: Manifest) -> None:
    left = manifest.after(Resolved((1,), manifest.of_classes([1])), "b" * 64)
    assert left.gone == (1,) and left.counts == (3, 0, 3) and left.weights == "b" * 64


def test_copies_are_found_by_their_bytes(manifest: Manifest) -> None:
    assert manifest.copies(["s2"]) == ("s8",)
    assert manifest.copies(["s2", "s8"]) == () == manifest.copies(["s0"])


def test_a_sample_is_deleted_once(manifest: Manifest) -> None:
    left = manifest.after(Resolved((), ("s1",)), "b" * 64)
    with pytest.raises(InvalidRequest, match="no sample s1"):
        left.after(Resolved((), ("s1",)), "c" * 64)


@pytest.mark.parametrize(
    "change",
    [
        {"weights": "short"},
        {"class_names": ("x",)},
        {"class_names": ("x", "x", "y")},
        {"gone": (3,)},
        {"gone": (1,)},  # whose samples are still there
        {"samples": {"s0": Sample(3, "0" * 64)}, "columns": {}},
        {"samples": {"s0": Sample(0, "no hash")}, "columns": {}},
        {"columns": {"user": {"ann": ("nobody's",)}}},
    ],
)
def test_parts_that_do_not_agree_are_refused(manifest: Manifest, change: dict[str, Any]) -> None:
    with pytest.raises(InvalidData):
        replace(manifest, **change)


def test_another_version_missing_and_strange_fields_are_named(manifest: Manifest, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    manifest.save(path)
    good = json.loads(path.read_text())
    without = {name: value for name, value in good.items() if name != "gone"}
    wrong = [({**good, "version": 2}, "version 2"), (without, "has no gone"), ({**good, "extra": 1}, "extra")]
    wrong += [({**good, "kind": "letter"}, "letter"), ({**good, "samples": {"s": ["0", 1]}}, "samples")]
    for content, said in wrong:
        path.write_text(json.dumps(content))
        with pytest.raises(InvalidData, match=said):
            Manifest.load(path)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    field=st.sampled_from(["model", "weights", "class_names", "gone", "samples", "columns", "packages"]), value=_JSON
)
def test_whatever_a_field_holds_there_is_no_traceback(
    tmp_path_factory: pytest.TempPathFactory, field: str, value: Any
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "m.json"
    names = ["x", "y"]
    good: dict[str, Any] = {
        "kind": "unsc manifest",
        "version": 1,
        "model": "m",
        "original": "",
        "weights": "a" * 64,
        "data": "d",
    }
    good |= {"class_names": names, "gone": [], "samples": {"s": [0, "0" * 64]}, "columns": {}, "packages": {}}
    path.write_text(json.dumps({**good, field: value}))
    try:
        loaded = Manifest.load(path)
    except UnscError:
        return
    assert getattr(loaded, field) is not None
