"""Folders of images: what is in them, what it becomes, and what is refused before it is unpacked."""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from unsc.datasets import read, read_labels
from unsc.errors import InvalidData
from unsc.loading.data import LoadedData, load_data
from unsc.loading.limits import Limits
from unsc.loading.models import LoadedModel, write_weights

pillow = pytest.importorskip("PIL.Image")


@pytest.fixture
def model() -> LoadedModel:
    """Of a user's own code: it says nothing of classes or inputs."""
    return LoadedModel(nn.Linear(1, 2), "app:net", None, None, None, None, write_weights)


def picture(path: Path, value: int, *, mode: str = "RGB", size: tuple[int, int] = (3, 2)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.full((size[1], size[0], 3), value, dtype=np.uint8)
    pixels[0, 0] = 0, 51, 255
    pillow.fromarray(pixels).convert(mode).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    for i in range(3):
        picture(root / f"cat/{i}.png", 10 * i)
        picture(root / f"dog/deeper/{i}.png", 10 * i)
    (root / "bird").mkdir()
    (root / "cat/notes.txt").write_text("no image")
    return root


def load(folder: Path, model: LoadedModel, **more: Any) -> LoadedData:
    return load_data(str(folder), model=model, **more)


def test_a_folder_of_images(folder: Path, model: LoadedModel) -> None:
    """Classes by the alphabet, one of them without images; ids are paths; pixels are floats from 0 to 1."""
    data = load(folder, model)
    assert data.class_names == ("bird", "cat", "dog")
    assert list(data.ids) == [f"cat/{i}.png" for i in range(3)] + [f"dog/deeper/{i}.png" for i in range(3)]
    assert data.labels.tolist() == [1, 1, 1, 2, 2, 2] == read_labels(data.dataset).tolist()
    x, y = data.dataset[2]
    assert (x.shape, x.dtype, y) == ((3, 2, 3), torch.float32, 1)
    assert x[:, 0, 0].tolist() == pytest.approx([0, 0.2, 1]) and x[:, 1, 2].tolist() == pytest.approx([20 / 255] * 3)
    assert data.positions(["dog/deeper/1.png", "cat/0.png"]) == [4, 0]


def test_fingerprints_are_of_the_files_bytes(folder: Path, model: LoadedModel) -> None:
    """So that a copy under another name, or of another class, is found."""
    data = load(folder, model)
    content = (folder / "cat/1.png").read_bytes()
    assert data.fingerprint(1) == hashlib.sha256(content).hexdigest() == data.fingerprint(4)
    assert len({data.fingerprint(i) for i in range(6)}) == 3


def test_classes_are_numbered_as_the_model_does(folder: Path, model: LoadedModel) -> None:
    data = load(folder, replace(model, class_names=("dog", "bird", "fish", "cat")))
    assert data.labels.tolist() == [3, 3, 3, 0, 0, 0] and data.class_names == ("dog", "bird", "fish", "cat")
    with pytest.raises(InvalidData, match=r"classes bird, which the model does not know; it knows dog, cat"):
        load(folder, replace(model, class_names=("dog", "cat")))


def test_gray_and_coloured_images(tmp_path: Path, model: LoadedModel) -> None:
    """Gray alone has one channel; among colours it has three; deep gray keeps its depth."""
    for i in range(3):
        picture(tmp_path / f"gray/a/{i}.png", 100, mode="L")
    assert load(tmp_path / "gray", model).dataset[0][0].shape == (1, 2, 3)
    picture(tmp_path / "gray/b/colour.png", 7)
    x, _ = load(tmp_path / "gray", model).dataset[0]
    assert x.shape == (3, 2, 3) and torch.equal(x[0], x[2])
    deep = np.array([[0, 13107], [65535, 1]], dtype=np.uint16)
    (tmp_path / "deep/a").mkdir(parents=True)
    pillow.fromarray(deep).save(tmp_path / "deep/a/0.png")
    found = load(tmp_path / "deep", model).dataset[0][0]
    assert torch.allclose(found, torch.tensor([[[0, 0.2], [1, 1 / 65535]]]))


def test_columns_come_from_a_table_beside_the_classes(folder: Path, model: LoadedModel) -> None:
    names = [f"cat/{i}.png" for i in range(3)] + [f"dog/deeper/{i}.png" for i in range(3)]
    rows = [f"{name},user{i % 2}" for i, name in enumerate(names)]
    (folder / "metadata.csv").write_text("\n".join(["file_name,user", *reversed(rows)]))
    data = load(folder, model)
    assert list(data.column("user")) == ["user0", "user1"] * 3
    with pytest.raises(ValueError, match="no column 'usr'; did you mean user"):
        data.column("usr")
    (folder / "metadata.csv").write_text("\n".join(["file_name,user", *rows[1:]]))
    with pytest.raises(InvalidData, match=r"no row for cat/0\.png"):
        load(folder, model)
    (folder / "metadata.csv").write_text("\n".join(["file_name,user", *rows, "cat/0.png,user7"]))
    with pytest.raises(InvalidData, match=r"several rows for cat/0\.png; leave one for each image"):
        load(folder, model)


def test_worker_processes_give_the_same_images(folder: Path, model: LoadedModel) -> None:
    """In the order asked for, over and over; damage is told as it is without them."""
    for i in range(20):
        picture(folder / f"cat/more{i:02}.png", i)
    alone, shared = load(folder, model), load(folder, model, workers=1)
    order = [*range(22, -1, -1), 3, 3]
    for _ in range(2):
        expected, found = read(alone.dataset, order), read(shared.dataset, order)
        assert torch.equal(expected.inputs, found.inputs) and torch.equal(expected.labels, found.labels)
    (folder / "cat/2.png").write_bytes(b"no image")
    with pytest.raises(InvalidData, match=r"cat/2\.png cannot be decoded"):
        read(shared.dataset, order)


def huge_png(width: int, height: int) -> bytes:
    """A sound head, and a body that nobody should unpack."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(("width", "height"), [(9_000, 9_000), (30_000, 30_000), (2**31 - 1, 2**31 - 1)])
def test_image_bombs_are_refused(folder: Path, model: LoadedModel, width: int, height: int) -> None:
    (folder / "cat/0.png").write_bytes(huge_png(width, height))
    with pytest.raises(InvalidData, match=r"cat/0\.png (has too many pixels.*image_pixels=|cannot be decoded)"):
        load(folder, model).dataset[0]


def test_limits_are_named(folder: Path, model: LoadedModel) -> None:
    with pytest.raises(InvalidData, match=r"too many images: 4 is above the limit samples=3"):
        load(folder, model, limits=Limits(samples=3))
    with pytest.raises(InvalidData, match=r"cat/0\.png is too large a file: 11 is above the limit image_bytes=10"):
        load(folder, model, limits=Limits(image_bytes=10))


@pytest.mark.parametrize("content", [b"", b"no image at all", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"])
def test_what_is_no_image_is_named(folder: Path, model: LoadedModel, content: bytes) -> None:
    """PostScript too, which Pillow would hand to another program."""
    data = load(folder, model)
    (folder / "dog/deeper/0.png").write_bytes(content)
    with pytest.raises(InvalidData, match=r"dog/deeper/0\.png cannot be decoded"):
        data.dataset[3]


def test_links_that_lead_out_are_refused(folder: Path, tmp_path: Path, model: LoadedModel) -> None:
    picture(tmp_path / "elsewhere/secret.png", 1)
    (folder / "cat/inside.png").symlink_to(folder / "dog/deeper/0.png")
    assert "cat/inside.png" in load(folder, model).ids
    (folder / "cat/out.png").symlink_to(tmp_path / "elsewhere/secret.png")
    with pytest.raises(InvalidData, match=r"cat/out\.png leads out of"):
        load(folder, model)
    (folder / "cat/out.png").unlink()
    data = load(folder, model)
    (folder / "cat/0.png").unlink()
    (folder / "cat/0.png").symlink_to(tmp_path / "elsewhere/secret.png")  # after the folder was listed
    with pytest.raises(InvalidData, match=r"cat/0\.png leads out of"):
        data.dataset[0]
    for link in (folder / "fish", folder / "dog/circle"):
        link.symlink_to(tmp_path / "elsewhere" if link.name == "fish" else folder)
        with pytest.raises(InvalidData, match=r"(is a link to a folder|leads out of)"):
            load(folder, model)
        link.unlink()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_only_regular_files_are_images(folder: Path, model: LoadedModel) -> None:
    os.mkfifo(folder / "cat/pipe.png")
    assert "cat/pipe.png" not in load(folder, model).ids


def test_a_name_that_is_no_text_is_refused(folder: Path, model: LoadedModel) -> None:
    """It would be an id that no request can name, and that neither a manifest nor a terminal can hold."""
    try:
        os.rename(os.fsencode(folder / "cat/0.png"), os.fsencode(folder / "cat") + b"/caf\xe9.png")
    except OSError:
        pytest.skip("this file system has names in UTF-8 alone")
    with pytest.raises(InvalidData, match=r"caf\\xe9\.png' is not UTF-8, so it can be no id; rename the file"):
        load(folder, model)


def test_a_folder_without_images_says_what_is_needed(tmp_path: Path, model: LoadedModel) -> None:
    picture(tmp_path / "loose.png", 1)
    with pytest.raises(InvalidData, match=r"has no images: it needs a folder for each class"):
        load(tmp_path, model)
