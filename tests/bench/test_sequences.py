"""`unsc bench sequences`: what is measured of classes that are forgotten one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from blobs import blobs, learned, network

from unsc.bench.datasets import Split, load
from unsc.bench.sequences.page import write_page
from unsc.bench.sequences.run import COLUMNS, measure, run_sequences, table
from unsc.bench.sequences.setups import as_tokens, token_network
from unsc.errors import InvalidRequest
from unsc.storage.files import write_json


def test_tokens_hold_the_whole_picture() -> None:
    """Place and level can be read back from each token."""
    images = load("digits").test.tensors[0][:20]
    tokens = as_tokens(images)
    assert tokens.shape == (20, 64) and (tokens // 17 == torch.arange(64)).all()
    levels, pixels = (tokens % 17).double(), images.flatten(1).double()
    scale = (pixels.max() - pixels.min()) / 16
    assert torch.allclose(levels * scale + pixels.min(), pixels, atol=1e-5)
    assert token_network()(tokens).shape == (20, 10)


def test_a_sequence_on_points_that_lie_far_apart() -> None:
    points = blobs(each=40, classes=6)
    row = measure(learned(network(6), points), Split("blobs", points, points, tuple("abcdef")), (3, 1))
    assert row["status"] == ["forgotten", "forgotten"] and row["status_at_once"] == "forgotten"
    assert row["worst"] == row["taken_for_gone"] == 0
    assert row["retain"] == row["retain_at_once"] == row["retain_original"] == 100
    line = table("blobs", [row | {"seed": 0, "order": (3, 1)}]).blocks[0][0]
    assert line[0] == "3, 1 (seed 0)" and len(line) == 1 + len(COLUMNS)


def test_the_page_has_the_highest_and_the_mean(tmp_path: Path) -> None:
    rows = [
        {"worst": 0.0, "taken_for_gone": 0.5, "retain": 98.0, "retain_at_once": 99.0, "retain_original": 97.0}
        | {"seed": seed, "order": [3, 1], "status": ["forgotten", status]}
        for seed, status in enumerate(["forgotten", "not forgotten"])
    ]
    rows[1] |= {"worst": 2.0, "retain": 100.0}
    write_json(tmp_path / "results/sequences/cnn.json", {"rows": rows})
    page = tmp_path / "docs/evaluation.md"
    page.parent.mkdir()
    page.write_text("Before.\n<!-- sequences -->\nold\n<!-- end sequences -->\nAfter.\n")
    assert write_page(tmp_path / "results") == [page]
    assert "| cnn | 2 | 2.00 | 0.50 | 99.00 ± 1.41 | 99.00 ± 0.00 | 97.00 ± 0.00 | 1 of 4 |" in page.read_text()
    assert "old" not in page.read_text() and page.read_text().endswith("After.\n")


def test_networks_are_known_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="cnn"):
        list(run_sequences(["cn"], tmp_path))
