"""Published files are fetched whole, checked, and put where the readers look; against a server of our own."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from unsc.bench.data.shared.image_data import DATA
from unsc.bench.data.shared.source import Published, Source
from unsc.bench.download import fetch
from unsc.errors import InvalidData, InvalidRequest

Served = dict[str, bytes]


@contextmanager
def server(files: Served, *, cut: int | None = None) -> Iterator[tuple[str, list[str]]]:
    """Its address, and the paths that were asked for. With `cut` it closes after so many bytes of each file."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            content = files.get(self.path.lstrip("/"))
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[:cut])

        def log_message(self, format: str, *args: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_address[1]}", asked
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


def archive(members: dict[str, bytes | tarfile.TarInfo]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as tar:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                content.name = name
                tar.addfile(content)
            else:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return raw.getvalue()


@pytest.fixture
def publish() -> Iterator[Callable[..., None]]:
    """Stands in for a data set's published files."""
    exit_stack = ExitStack()

    def stand_in(name: str, folder: str, files: Served, members: tuple[str, ...] = ()) -> None:
        published = (
            Published(n, hashlib.md5(c, usedforsecurity=False).hexdigest(), len(c), members) for n, c in files.items()
        )
        source = Source("http://127.0.0.1:9/", folder, tuple(published))
        exit_stack.enter_context(DATA.temporarily(replace(DATA.find(name), source=source)))

    with exit_stack:
        yield stand_in


def everything(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


FILES = {"a.gz": gzip.compress(b"a" * 3_000_000, compresslevel=0), "b.gz": gzip.compress(b"b")}


def test_files_are_fetched_to_their_place_once(tmp_path: Path, publish: Callable[..., None]) -> None:
    publish("fashion-mnist", "FashionMNIST/raw", FILES)
    steps = []

    @contextmanager
    def progress(description: str, total: int) -> Iterator[Callable[[], None]]:
        steps.append(total)
        yield lambda: steps.append(1)

    with server(FILES) as (url, asked):
        fetch("fashion-mnist", tmp_path, base_url=url, progress=progress)
        assert everything(tmp_path) == {f"FashionMNIST/raw/{n}": c for n, c in FILES.items()}
        assert steps == [2, 1, 1]
        fetch("fashion-mnist", tmp_path, base_url=url)
    assert asked == ["/a.gz", "/b.gz"]
    assert [p.name for p in tmp_path.iterdir()] == ["FashionMNIST"]


def test_what_is_there_is_left_alone(tmp_path: Path, publish: Callable[..., None]) -> None:
    """Whatever its checksum."""
    publish("svhn", ".", FILES)
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.gz").write_bytes(b"another crop")
    with server(FILES) as (url, asked):
        fetch("svhn", data, base_url=url)
    assert asked == ["/b.gz"]
    assert everything(tmp_path) == {"data/a.gz": b"another crop", "data/b.gz": FILES["b.gz"]}
    assert (data / "b.gz").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("served", "cut", "message"),
    [
        ({"a.gz": b"<html>moved</html>"}, None, "is not the published file"),
        (FILES, 1_000_000, "cannot fetch|is not the published file"),
        ({}, None, "cannot fetch .*404"),
    ],
)
def test_a_bad_transfer_leaves_nothing(
    tmp_path: Path, publish: Callable[..., None], served: Served, cut: int | None, message: str
) -> None:
    publish("svhn", ".", FILES)
    with server(served, cut=cut) as (url, _), pytest.raises(InvalidData, match=message) as caught:
        fetch("svhn", tmp_path, base_url=url)
    assert f"{url}/a.gz" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_no_server_is_an_error_that_names_it(tmp_path: Path, publish: Callable[..., None]) -> None:
    publish("svhn", ".", FILES)
    with server(FILES) as (url, _):
        pass
    with pytest.raises(InvalidData, match=f"cannot fetch {re.escape(url)}/a.gz .*put the files into"):
        fetch("svhn", tmp_path, base_url=url)
    with pytest.raises(InvalidData, match=r"cannot fetch nonsense/a\.gz"):
        fetch("svhn", tmp_path, base_url="nonsense")


def test_an_archive_gives_its_known_members_alone(tmp_path: Path, publish: Callable[..., None]) -> None:
    """Neither readme nor paths that lead outside."""
    data = tmp_path / "data"
    packed = archive(
        {
            "cifar-100-python/train": b"tr",
            "cifar-100-python/meta": b"me",
            "cifar-100-python/readme": b"no",
            "../outside": b"no",
            "/tmp/unsc-outside": b"no",
            "cifar-100-python/../../outside": b"no",
        }
    )
    publish("cifar-100", "cifar-100-python", {"c.tar.gz": packed}, ("train", "meta"))
    with server({"c.tar.gz": packed}) as (url, asked):
        fetch("cifar-100", data, base_url=url)
        assert everything(tmp_path) == {"data/cifar-100-python/train": b"tr", "data/cifar-100-python/meta": b"me"}
        (data / "cifar-100-python" / "train").write_bytes(b"mine")
        (data / "cifar-100-python" / "meta").unlink()
        fetch("cifar-100", data, base_url=url)
    assert everything(data) == {"cifar-100-python/train": b"mine", "cifar-100-python/meta": b"me"}
    assert len(asked) == 2


def _link() -> tarfile.TarInfo:
    link = tarfile.TarInfo()
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
    return link


@pytest.mark.parametrize(
    "packed",
    [
        archive({"cifar-100-python/meta": b"x"}),
        archive({"cifar-100-python/train": _link()}),
        b"no archive",
        archive({"cifar-100-python/train": bytes(range(256)) * 4000})[:-2000],
    ],
)
def test_a_strange_archive_leaves_nothing(tmp_path: Path, publish: Callable[..., None], packed: bytes) -> None:
    """Though its checksum is right: a member missing, a link in its place, no archive at all, its end missing."""
    publish("cifar-100", "cifar-100-python", {"c.tar.gz": packed}, ("train",))
    with server({"c.tar.gz": packed}) as (url, _), pytest.raises(InvalidData, match=r"c\.tar\.gz"):
        fetch("cifar-100", tmp_path, base_url=url)
    assert everything(tmp_path) == {}


def test_the_table_of_sources() -> None:
    """A source for all that is read from files, over whole MD5 sums, no file twice."""
    sources = {name: data.source for name, data in DATA.all().items()}
    assert [name for name, source in sources.items() if source is None] == ["digits"]
    published = [source for source in sources.values() if source is not None]
    sums = [file.md5 for source in published for file in source.files]
    assert len(set(sums)) == len(sums) == 8
    assert all(re.fullmatch("[0-9a-f]{32}", s) for s in sums)
    assert all(source.base_url.endswith("/") for source in published)


def test_names(tmp_path: Path) -> None:
    fetch("digits", tmp_path)
    with pytest.raises(InvalidRequest, match="no data set 'cifar10'; did you mean cifar-10"):
        fetch("cifar10", tmp_path)
    assert list(tmp_path.iterdir()) == []
