"""Parts of a page that are made anew; the prose around them stays as it is."""

from __future__ import annotations

import re


def between(mark: str, new: str, text: str) -> str:
    """`text` with what stands between `<!-- MARK -->` and `<!-- end MARK -->` replaced."""
    begin, end = f"<!-- {mark} -->", f"<!-- end {mark} -->"
    return re.sub(f"{begin}.*?{end}", lambda _: f"{begin}\n{new}\n{end}", text, flags=re.DOTALL)
