"""Parts of a page that are made anew; the prose around them stays as it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from unsc.storage.files import write_whole


def renewed(page: Path, parts: Mapping[str, Callable[[], str]]) -> list[Path]:
    """Put each part between its `<!-- MARK -->` and `<!-- end MARK -->` in a page, and give the page.

    Without parts or such a page nothing is made or written.
    """
    if not parts or not page.exists():
        return []
    text = page.read_text()
    for mark, make in parts.items():
        text = between(mark, make(), text)
    write_whole(page, lambda p: p.write_text(text))
    return [page]


def between(mark: str, new: str, text: str) -> str:
    """`text` with what stands between `<!-- MARK -->` and `<!-- end MARK -->` replaced."""
    begin, end = f"<!-- {mark} -->", f"<!-- end {mark} -->"
    return re.sub(f"{begin}.*?{end}", lambda _: f"{begin}\n{new}\n{end}", text, flags=re.DOTALL)
