"""Where a data set is published: addresses and MD5 sums as torchvision lists them, and the files' sizes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A file on a server."""

    name: str
    md5: str
    size: int
    """In bytes; for the progress bar alone."""
    members: tuple[str, ...] = ()
    """Of an archive: what is taken out of it, all in one folder; nothing else is."""


@dataclass(frozen=True)
class Source:
    """Where a data set is published."""

    base_url: str
    folder: str
    """Where its files end, under the data folder."""
    files: tuple[Published, ...]
