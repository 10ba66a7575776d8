"""Products of rows with themselves, by halves: those of the formula, and exactly symmetric."""

from __future__ import annotations

import pytest
import torch

from unsc.gram import gram, spare_for


@pytest.mark.parametrize("columns", [0, 1, 255, 256, 257, 515, 1026])
@pytest.mark.parametrize("groups", [(), (1,), (3,)])
def test_it_is_the_product(columns: int, groups: tuple[int, ...]) -> None:
    torch.manual_seed(columns)
    rows = torch.randn(*groups, 5, columns)
    found = gram(rows)
    torch.testing.assert_close(found, rows.mT @ rows)
    assert torch.equal(found, found.mT)
    stored = rows.mT.contiguous().mT  # column by column, as patches are
    out = torch.full_like(found, torch.nan)
    assert gram(stored, out, spare_for(stored)) is out
    torch.testing.assert_close(out, found)
