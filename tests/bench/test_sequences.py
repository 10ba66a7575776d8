"""`unsc bench sequences`: what is measured of classes that are forgotten one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from blobs import blobs, learned, network

from unsc.bench.datasets import Split, load
from unsc.bench.sequences.run import COLUMNS, measure, run_sequences, table
from unsc.bench.sequences.setups import as_tokens, token_network
from unsc.errors import InvalidRequest


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


def test_networks_are_known_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="cnn"):
        list(run_sequences(["cn"], tmp_path))
