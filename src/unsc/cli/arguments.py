"""What several commands read in the same way."""

from __future__ import annotations

from unsc.errors import InvalidRequest

DATA = "digits; fashion-mnist, svhn, cifar-10 or cifar-100 in the folder UNSC_DATA; or package.module:function."
"""The help of an option that names a scenario."""


def numbers(text: str, option: str) -> list[int]:
    """The whole numbers of a list like "3,5"; `option` is named in the error."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InvalidRequest(f"{option} {text!r}; give whole numbers separated by commas, like 3 or 3,5") from None


def names(text: str | None) -> tuple[str, ...] | None:
    """The names of a list like "a,b"; None if nothing was given."""
    return tuple(name.strip() for name in text.split(",")) if text else None
