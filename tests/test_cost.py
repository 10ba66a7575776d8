"""Seconds and memory of a block, by a clock and a system that a test controls, and by the real ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from unsc import cost
from unsc.cost import Cost, metered


@pytest.fixture
def status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the kernel's file; without CUDA."""
    path = tmp_path / "status"
    monkeypatch.setattr(cost, "_STATUS", path)
    monkeypatch.setattr(cost, "_RESET", tmp_path / "clear_refs")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return path


def memory(now: int, peak: int) -> str:
    return f"Name:\tpython\nVmHWM:\t {peak} kB\nVmRSS:\t {now} kB\n"


def test_cost_is_elapsed_time_and_the_peak_above_the_start(status: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks, work = iter([10.0, 12.5]), iter([3.0, 7.0])
    monkeypatch.setattr(cost.time, "perf_counter", lambda: next(ticks))
    monkeypatch.setattr(cost.time, "process_time", lambda: next(work))
    status.write_text(memory(now=102400, peak=999999))
    with metered() as spent:
        status.write_text(memory(now=103000, peak=102400 + 3072))
    assert spent() == Cost(seconds=2.5, peak_mib=3.0, cpu_seconds=4.0)
    assert (status.parent / "clear_refs").read_text() == "5"


def test_memory_that_shrinks_costs_nothing(status: Path) -> None:
    status.write_text(memory(now=2048, peak=2048))
    with metered() as spent:
        status.write_text(memory(now=1024, peak=1024))
    assert spent().peak_mib == 0


@pytest.mark.parametrize("content", [None, "Name:\tpython\n"])
def test_a_system_that_cannot_tell_gives_no_memory(status: Path, content: str | None) -> None:
    if content is not None:
        status.write_text(content)
    with metered() as spent:
        pass
    assert spent().peak_mib is None and spent().seconds >= 0


def test_a_block_that_fails_has_a_cost_too(status: Path) -> None:
    status.write_text(memory(now=1024, peak=1024))
    with pytest.raises(KeyError), metered() as spent:
        raise KeyError
    assert spent().seconds >= 0


def test_a_tensor_that_comes_and_goes_is_seen() -> None:
    """On a system that tells: 64 MiB are there for a moment."""
    with metered() as spent:
        torch.ones(16 << 20).sum()
    peak = spent().peak_mib
    if peak is None:
        pytest.skip("this system does not tell")
    assert 50 < peak < 200
    with metered() as spent:
        pass
    assert (spent().peak_mib or 0) < 30


@pytest.mark.parametrize(("cpu", "expected"), [(2.0, 2.0), (8.0, 5.0), (None, 5.0)])
def test_time_at_work_is_neither_waiting_nor_counted_once_for_each_thread(cpu: float | None, expected: float) -> None:
    assert Cost(seconds=5.0, peak_mib=None, cpu_seconds=cpu).at_work == expected
