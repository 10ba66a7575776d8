"""The page on what works with what names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "compatibility.md"
ROWS = [line for line in PAGE.read_text().splitlines() if re.match(r"\| (?!.*\| Test \|)", line)]


@pytest.mark.parametrize("row", ROWS)
def test_each_row_names_a_test(row: str) -> None:
    found = re.search(r"`(\S+\.py)::(test_\w+)` \|$", row)
    assert found, f"no test in: {row}"
    file, name = found.groups()
    assert f"def {name}(" in (TESTS / file).read_text(), f"{file} has no {name}"
