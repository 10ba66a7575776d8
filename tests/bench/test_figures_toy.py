"""The toy example runs, is the same every time, and shows what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unsc.bench.figures import toy
from unsc.bench.figures.shared.make import measure_missing
from unsc.cli.bench import app


@pytest.fixture(scope="module")
def content() -> dict:
    return toy.measure(tries=1, each=80)


def test_ours_forgets_and_keeps(content: dict) -> None:
    before, after = content["test"]["original"], content["test"]["unsc"]
    assert before["forgotten"] > 70 and after["forgotten"] < 5
    assert after["retained"] > before["retained"] - 1
    assert list(content["regions"]) == list(toy.TITLES)


def test_regions_are_what_the_network_predicts(content: dict) -> None:
    rows = content["regions"]["original"]
    cells = len(rows)
    assert {len(row) for row in rows} == {cells}
    for k, (x, y) in enumerate(toy.CENTRES):
        column, row = (int((v + content["side"]) / (2 * content["side"]) * cells) for v in (x, y))
        assert rows[row][column] == str(k)
    before, after = ("".join(content["regions"][name]).count(str(toy.FORGOTTEN)) for name in ("original", "unsc"))
    assert after < before / 10


def test_the_input_layer_has_hardly_any_room(content: dict) -> None:
    free, columns = content["free"]["0"]
    assert columns == 3 and free <= 1
    assert content["free"]["2"][0] > 50


def test_the_same_seed_gives_the_same(content: dict) -> None:
    assert toy.measure(tries=1, each=80) == content


def test_the_picture_needs_the_file_alone(content: dict, tmp_path: Path) -> None:
    toy.draw(json.loads(json.dumps(content)), tmp_path / "toy.png")
    assert (tmp_path / "toy.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_draws_what_was_measured(content: dict, tmp_path: Path) -> None:
    measure_missing({"toy": lambda: content}, tmp_path / "toy")
    done = CliRunner().invoke(app, ["figures", "--data", "toy", "--out", str(tmp_path)])
    assert done.exit_code == 0 and (tmp_path / "toy" / "toy.png").exists(), done.output
