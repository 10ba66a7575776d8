"""Requests as files: what they ask for, and that a hostile one is a message."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unsc.errors import InvalidData, InvalidRequest, UnscError
from unsc.release.asked import Asked, Limits, User, read_request
from unsc.release.manifest import Manifest, Sample
from unsc.release.resolve import resolve

SHA = "0" * 63
SAMPLES = {f"{name}/{i}.png": Sample(k, f"{SHA}{i}") for k, name in enumerate(("cat", "dog", "eel")) for i in range(4)}
MANIFEST = Manifest(
    model="app:net",
    original="",
    weights=f"{SHA}0",
    data="data",
    transform="",
    class_names=("cat", "dog", "eel"),
    gone=(),
    samples=SAMPLES,
    columns={"user": {"u1": ("cat/0.png", "dog/1.png"), "u2": ("cat/1.png",)}, "site": {"x": ("eel/3.png",)}},
    packages={},
)


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("name", "content", "asked"),
    [
        ("a.csv", "id\na\nb\n", Asked(ids=("a", "b"))),
        ("a.csv", "\ufeffid\r\nb\r\na\r\na\r\n\r\n", Asked(ids=("a", "b"))),
        ("a.csv", "class\n3\ncat\n", Asked(classes=("3", "cat"))),
        ("a.csv", 'id,user\na,\n,u1\n"x, y",\n', Asked(ids=("a", "x, y"), users=(User("user", "u1"),))),
        ("a.jsonl", '{"id": 17}\n\n{"id": "b"}\r\n', Asked(ids=("17", "b"))),
        ("a.jsonl", '\ufeff{"site": "x"}', Asked(users=(User("site", "x"),))),
        ("a.ndjson", '{"class": 0}\n{"class": "dog"}\n', Asked(classes=("0", "dog"))),
    ],
)  # fmt: skip
def test_what_a_file_asks_for(tmp_path: Path, name: str, content: str, asked: Asked) -> None:
    assert read_request(write(tmp_path, name, content)) == asked


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", "id\na\n", "write one as .csv"),
        ("a.csv", "", "asks for nothing"),
        ("a.csv", "id\n", "asks for nothing"),
        ("a.csv", "id,id\na,b\n", "each once"),
        ("a.csv", "id\na,b\n", "line 2"),
        ("a.csv", 'id\n"a\n', "no CSV"),
        ("a.csv", "class,id\ncat,a\n", "write two requests"),
        ("a.csv", "id\n../secret\n", "leads out of the data's folder"),
        ("a.csv", "id\na/../../b\n", "leads out of the data's folder"),
        ("a.csv", "id\n/etc/passwd\n", "leads out of the data's folder"),
        ("a.csv", "id\n..\\b\n", "leads out of the data's folder"),
        ("a.csv", b"id\na\x00b\n", ""),  # Pythons differ in who finds it
        ("a.csv", b"id\n\xff\xfe\n", "not UTF-8 (byte 3)"),
        ("a.jsonl", "[1]", "line 1"),
        ("a.jsonl", '{"id": "a"}\n{"id"', "line 2"),
        ("a.jsonl", '{"id": true}', "no text or whole number"),
        ("a.jsonl", '{"id": 1.5}', "no text or whole number"),
        ("a.jsonl", '{"id": {"a": 1}}', "no text or whole number"),
        ("a.jsonl", '{"id": ""}', "no text or whole number"),
        ("a.jsonl", '{"id": "a\\u0000"}', "control character"),
        ("a.jsonl", '{"id": "\\ud800"}', "control character"),
        ("a.jsonl", "[" * 100_000, "line 1"),
        ("a.jsonl", '{"id": ' + "9" * 5000 + "}", "line 1"),
    ],
)
def test_what_is_refused(tmp_path: Path, name: str, content: str | bytes, said: str) -> None:
    with pytest.raises((InvalidData, InvalidRequest)) as caught:
        read_request(write(tmp_path, name, content))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("limits", "named"),
    [(Limits(bytes=10), "10 bytes"), (Limits(entries=2), "2 things"), (Limits(characters=3), "3 characters")],
)
def test_limits_are_named(tmp_path: Path, limits: Limits, named: str) -> None:
    path = write(tmp_path, "a.csv", "id\nabcd\nb\nc\n")
    assert read_request(path).ids == ("abcd", "b", "c")
    with pytest.raises(InvalidData, match=named):
        read_request(path, limits)


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    for name in ("pipe.csv", "nothing.csv", "a\0.csv"):
        with pytest.raises(InvalidData, match="give"):
            read_request(tmp_path / name)


def test_classes_are_named_or_numbered() -> None:
    for words in (("cat", "2"), ("0", "eel"), ("0", "2", "cat")):
        found = resolve(Asked(classes=words), MANIFEST)
        assert found.classes == (0, 2)
        assert set(found.ids) == {id_ for id_ in SAMPLES if not id_.startswith("dog")}


def test_records_are_those_of_ids_and_of_users() -> None:
    asked = Asked(ids=("cat/0.png", "eel/0.png"), users=(User("user", "u1"), User("site", "x")))
    assert resolve(asked, MANIFEST).ids == ("cat/0.png", "dog/1.png", "eel/0.png", "eel/3.png")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (Asked(classes=("dgo",)), "did you mean dog"),
        (Asked(classes=("3",)), "there is no class '3'"),
        (Asked(classes=("cat", "dog", "eel")), "at least one must stay"),
        (Asked(ids=("cat/9.png", "cat/0.png")), "knows no sample cat/9.png"),
        (Asked(users=(User("user", "u9"),)), "'u9'"),
        (Asked(users=(User("usr", "u1"),)), "did you mean user"),
        (Asked(ids=tuple(f"cat/{i}.png" for i in range(4))), "ask for the class"),
    ],
)
def test_what_the_store_does_not_know(asked: Asked, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        resolve(asked, MANIFEST)


def test_a_digest_is_of_what_is_asked() -> None:
    names = MANIFEST.class_names
    by_name, by_number = (Asked(classes=words).digest(b"s", names) for words in (("dog", "cat"), ("0", "1")))
    assert by_name == by_number != Asked(classes=("cat",)).digest(b"s", names)
    assert Asked(ids=("b", "a", "b")).digest(b"s") == Asked(ids=("a", "b")).digest(b"s")
    one_of_each = [Asked(classes=("a",)), Asked(ids=("a",)), Asked(users=(User("a", "a"),)), Asked(ids=("a", "b"))]
    assert len({asked.digest(b"s") for asked in one_of_each}) == 4
    assert Asked(ids=("a",)).digest(b"s") != Asked(ids=("a",)).digest(b"t")


@settings(deadline=None)
@given(
    st.sampled_from([".csv", ".jsonl"]),
    st.binary(max_size=200) | st.text(max_size=200).map(lambda t: t.encode("utf-8", "replace")),
)
def test_no_file_makes_it_fail(tmp_path_factory: pytest.TempPathFactory, suffix: str, content: bytes) -> None:
    path = write(tmp_path_factory.getbasetemp(), f"fuzzed{suffix}", content)
    try:
        resolve(read_request(path), MANIFEST)
    except UnscError as e:
        assert str(e)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["class", "id", "user"]), st.text(min_size=1, max_size=8)), max_size=5))
def test_what_is_written_as_json_is_read_as_it_was(tmp_path_factory: pytest.TempPathFactory, pairs: list) -> None:
    lines = "\n".join(json.dumps({name: value}) for name, value in pairs)
    path = write(tmp_path_factory.getbasetemp(), "written.jsonl", lines)
    try:
        found = read_request(path)
    except InvalidRequest:
        return
    assert set(found.ids) == {value for name, value in pairs if name == "id"}
    assert set(found.classes) == {value for name, value in pairs if name == "class"}
    assert {u.value for u in found.users} == {value for name, value in pairs if name == "user"}
