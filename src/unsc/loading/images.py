"""Images out of files: decoded by Pillow within limits, and a folder of them with a folder for each class."""

from __future__ import annotations

import io
import os
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from unsc.errors import InvalidData, UnscError, listing
from unsc.extras import need
from unsc.loading.inside import check_inside, files_below
from unsc.loading.limits import Limits
from unsc.loading.records import Records
from unsc.loading.tables import read_csv

if TYPE_CHECKING:
    from PIL.Image import Image

_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
"""Pillow knows others, some of which start programs."""
_ENDINGS = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
_GRAY = ("1", "L", "LA", "I", "I;16")
_LOOKED_AT = 16
"""Images that tell whether a source is gray."""
METADATA = "metadata.csv"
"""A table beside the classes' folders, with a column `file_name`: its other columns say who a sample belongs to."""


def decode(content: bytes, name: str, limits: Limits) -> Image:
    """The image that a file holds; its size is looked at before anything is unpacked."""
    pillow = need("PIL.Image", extra="images")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd metadata is no concern of ours ...
            warnings.simplefilter("error", pillow.DecompressionBombWarning)  # ... but this is
            image = pillow.open(io.BytesIO(content), formats=_FORMATS)
            limits.check("image_pixels", image.width * image.height, f"{name} has too many pixels")
            image.load()
    except UnscError:
        raise
    except Exception as e:  # damaged files make its decoders raise anything
        said = str(e).replace(repr(content), "")
        raise InvalidData(
            f"{name} cannot be decoded ({type(e).__name__}: {said:.200}); replace the file, or remove it. Formats are "
            f"{listing(_FORMATS)}"
        ) from e
    return image


@dataclass(frozen=True)
class AsTensor:
    """An image as floats (channels, height, width) from 0 to 1: one channel if the source is gray, else three."""

    gray: bool

    def __call__(self, image: Image) -> Tensor:
        if image.mode in ("I", "I;16"):
            deep = torch.from_numpy(np.array(image, dtype=np.float32) / 65535).clamp(0, 1)
            return deep[None] if self.gray else deep.expand(3, *deep.shape).clone()
        if image.mode == "F" or (self.gray and image.mode not in _GRAY):
            raise InvalidData(
                f"an image of mode {image.mode} is among {'gray' if self.gray else 'other'} ones; say how to make a "
                "tensor of each (--transform package.module:function)"
            )
        pixels = np.array(image.convert("L" if self.gray else "RGB"), dtype=np.uint8)
        found = torch.from_numpy(pixels).float() / 255
        return found[None] if self.gray else found.permute(2, 0, 1).contiguous()


def are_gray(images: Callable[[int], Image], size: int) -> bool:
    """Whether some of so many images, spread over all of them, have no colours."""
    few = sorted({round(x) for x in np.linspace(0, size - 1, min(size, _LOOKED_AT))})
    return all(images(i).mode in _GRAY for i in few)


@dataclass(frozen=True)
class ImageFiles:
    """Images by their paths below a folder."""

    root: Path
    paths: tuple[str, ...]
    limits: Limits

    def stored(self, i: int) -> bytes:
        path = self.root / self.paths[i]
        check_inside(self.root, path)
        try:
            with path.open("rb") as file:
                content = file.read(self.limits.image_bytes + 1)
        except OSError as e:
            raise InvalidData(f"{path} cannot be read ({e.strerror}); it was there when the folder was listed") from e
        self.limits.check("image_bytes", len(content), f"{path} is too large a file")
        return content

    def raw(self, i: int) -> Image:
        return decode(self.stored(i), str(self.root / self.paths[i]), self.limits)


def read_image_folder(root: Path, limits: Limits) -> Records:
    """The images in the subfolders of `root`, whose names are those of their classes.

    Classes are numbered in the order of the alphabet, as torchvision does; a class without images is an empty folder.
    Files with other endings are left alone.
    """
    names = tuple(sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith(".")))
    paths: list[str] = []
    labels: list[str | int] = []
    for name in names:
        if (root / name).is_symlink():
            raise InvalidData(f"{root / name} is a link to a folder; put the folder itself there")
        for path in files_below(root / name, root=root):
            if path.suffix.lower() in _ENDINGS:
                paths.append(_id_of(path, root))
                labels.append(name)
                limits.check("samples", len(paths), f"{root} has too many images")
    if not paths:
        raise InvalidData(
            f"{root} has no images: it needs a folder for each class, with files that end in "
            f"{listing(_ENDINGS, limit=10)}"
        )
    return Records(
        "images", ImageFiles(root, tuple(paths), limits), labels, paths, _metadata(root, paths, limits), names
    )


def _id_of(path: Path, root: Path) -> str:
    """An image's path below the folder, which is its id."""
    found = path.relative_to(root).as_posix()
    try:
        found.encode()
    except UnicodeEncodeError as e:  # bytes that are no text in UTF-8
        raise InvalidData(f"the name of {os.fsencode(path)!r} is not UTF-8, so it can be no id; rename the file") from e
    return found


def _metadata(root: Path, paths: list[str], limits: Limits) -> dict[str, list[str]]:
    """The columns of the table beside the folders, in the order of the images; empty where there is none."""
    path = root / METADATA
    if not path.is_file():
        return {}
    check_inside(root, path)
    table = read_csv(path, limits)
    if "file_name" not in table.columns:
        raise InvalidData(f"{path} has the columns {listing(table.columns)}; it needs file_name")
    rows = {name: i for i, name in enumerate(table.columns["file_name"])}
    if len(rows) < len(table.columns["file_name"]):
        twice = [name for name, count in Counter(table.columns["file_name"]).items() if count > 1]
        raise InvalidData(f"{path} has several rows for {listing(twice, limit=4)}; leave one for each image")
    missing = [one for one in paths if one not in rows]
    if missing:
        raise InvalidData(f"{path} has no row for {listing(missing, limit=4)}; add one for each image")
    return {name: [values[rows[one]] for one in paths] for name, values in table.columns.items() if name != "file_name"}
