"""How much of a user's files is read before they are taken for damaged or hostile."""

from __future__ import annotations

from dataclasses import dataclass

from unsc.errors import InvalidData


@dataclass(frozen=True)
class Limits:
    """Far beyond what honest data of its kind has. Data that is larger is read by a data set of your own code."""

    samples: int = 20_000_000
    """Files of an image folder, rows of a table or an array."""
    table_bytes: int = 4 << 30
    """A CSV file, or the texts of a Parquet file."""
    row_chars: int = 1 << 20
    """A row of a CSV file."""
    field_chars: int = 100_000
    """A field of a CSV file."""
    array_bytes: int = 16 << 30
    """All arrays of an .npz file, unpacked."""
    image_bytes: int = 256 << 20
    """The file of an image."""
    image_pixels: int = 64_000_000
    """An image, unpacked."""

    def check(self, name: str, found: int, what: str) -> None:
        """Refuse `what`, of which `found` are more than the limit called `name`."""
        allowed: int = getattr(self, name)
        if found > allowed:
            raise InvalidData(
                f"{what}: {found:,} is above the limit {name}={allowed:,}. If the data is honest, read it by code of "
                "your own (package.module:dataset), or pass Limits in Python"
            )
