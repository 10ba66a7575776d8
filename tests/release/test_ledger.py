"""The ledger: what was written is there, in one order, by one writer; a damaged one is a message."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unsc.errors import InvalidData, InvalidRequest, UnscError
from unsc.release.ledger import FILE, StoreIsBusy, open_ledger, read_ledger

A, B = "a" * 64, "b" * 64


def test_an_entry_goes_through_its_states(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        salt, chain = ledger.salt, ledger.chain
        first = ledger.begin("d1", "classes", A, tmp_path / "run")
        assert ledger.unfinished() == first and ledger.in_force() is None
        ledger.move(first, "releasing", child=B, receipt="r1", result={"x": [1, None, "ä"]})
    with open_ledger(tmp_path) as ledger:
        assert (ledger.salt, ledger.chain) == (salt, chain) and len(salt) == 32
        entry = ledger.unfinished()
        assert entry is not None and (entry.child, entry.result) == (B, {"x": [1, None, "ä"]})
        assert ledger.receipts() == ()
        done = ledger.move(entry, "released")
        assert ledger.unfinished() is None and ledger.in_force() == done == ledger.latest("d1")
        assert ledger.receipts() == ("r1",) and done.seconds >= 0
        assert [state for state, _ in ledger.timings(done.number)] == ["working", "releasing", "released"]


def test_a_rollback_undoes_in_the_same_moment(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        first = ledger.move(ledger.begin("d", "classes", A, tmp_path), "released", child=B, receipt="r1")
        back = ledger.begin("rollback", "rollback", B, tmp_path)
        ledger.move(back, "released", child=A, receipt="r2", taken_back=first.number)
        assert [entry.state for entry in ledger.entries()] == ["rolled back", "released"]
        assert ledger.receipts() == ("r1", "r2")


def test_there_is_one_writer(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.begin("d", "classes", A, tmp_path)
        with pytest.raises(StoreIsBusy, match=r"waited for 0.05 s"), open_ledger(tmp_path, wait=0.05):
            pass
        with read_ledger(tmp_path) as reader:  # readers are in nobody's way
            assert len(reader.entries()) == 1
    with open_ledger(tmp_path) as ledger:
        assert len(ledger.entries()) == 1


def test_an_error_inside_is_handed_on(tmp_path: Path) -> None:
    for error in (TypeError("mine"), ValueError("mine"), InvalidRequest("mine")):
        with pytest.raises(type(error), match="mine"), open_ledger(tmp_path):
            raise error


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="no store"), open_ledger(tmp_path / "none"):
        pass
    with pytest.raises(InvalidRequest, match="no ledger"), read_ledger(tmp_path):
        pass
    for number in (7, 0, -1, 10**30):
        with open_ledger(tmp_path) as ledger, pytest.raises(InvalidRequest, match=f"no request {number}"):
            ledger.entry(number)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE entries", "DELETE FROM about", "UPDATE about SET version = 9", "UPDATE entries SET state = 'lost'",
        "UPDATE entries SET result = '{'", "UPDATE entries SET result = '[]'", "ALTER TABLE entries DROP COLUMN out",
        "UPDATE entries SET began = 'x'", "UPDATE entries SET changed = 1e300", "UPDATE entries SET began = -1e300",
        "UPDATE entries SET parent = x'00ff'", "UPDATE entries SET child = x'00ff'", "UPDATE entries SET out = x'00ff'",
        """UPDATE entries SET result = '{"verdicts": 5}'""", """UPDATE entries SET result = '{"verdicts": [{}]}'""",
    ],
)  # fmt: skip
def test_a_ledger_that_was_tampered_with(tmp_path: Path, statement: str) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.begin("d", "classes", A, tmp_path)
    connection = sqlite3.connect(tmp_path / FILE)
    connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(InvalidData, match=r"damaged|version"), open_ledger(tmp_path) as ledger:
        ledger.entries()


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A good ledger."""
    folder = tmp_path_factory.mktemp("ledger")
    with open_ledger(folder) as ledger:
        ledger.move(ledger.begin("d", "classes", A, folder), "released", child=B, receipt="r")
    return (folder / FILE).read_bytes()


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 24_000), st.binary(min_size=1, max_size=40))
def test_whatever_the_file_holds_there_is_no_traceback(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes, place: int, noise: bytes
) -> None:
    folder = tmp_path_factory.mktemp("ledger")
    (folder / FILE).write_bytes(raw[:place] + noise + raw[place + len(noise) :])
    try:
        with open_ledger(folder) as ledger:
            _ = ledger.entries(), ledger.unfinished(), ledger.receipts()
    except UnscError as e:
        assert str(e)
