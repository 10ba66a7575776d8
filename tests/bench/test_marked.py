"""Tables in pages: what stands between two marks is made anew from the results, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from unsc.bench.claims import write_claims
from unsc.bench.figure_claims import write_figure_claims
from unsc.bench.overview import write_overview


@pytest.mark.parametrize(
    ("write", "mark"),
    [(write_claims, "claims"), (write_figure_claims, "figures"), (write_overview, "requests")],
)
def test_only_what_is_between_the_marks_is_made_anew(
    write: Callable[[Path], list[Path]], mark: str, tmp_path: Path
) -> None:
    page = tmp_path / "docs" / "paper.md"
    page.parent.mkdir()
    page.write_text(f"before\n<!-- {mark} -->\nold\n<!-- end {mark} -->\nafter\n")
    (tmp_path / "results").mkdir()
    assert write(tmp_path / "results") == [page]
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text
    assert write(tmp_path / "nowhere" / "results") == []
