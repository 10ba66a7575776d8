"""Work in real processes: all of it is done, each process is used again, and none outlives the others."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
from worker_tasks import lost, masked, semaphores, slow, squared, stopped_at_exit

from unsc.errors import InvalidRequest
from unsc.workers import Workers

linux = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks into /proc")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _until(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.1)
    raise TimeoutError


def test_all_pieces_are_done_by_so_many_processes() -> None:
    with Workers(squared, 2) as workers:
        first = dict(workers.results(range(7)))
        second = dict(workers.results([10]))
        assert list(workers.results([])) == []
    assert {x: y for x, (y, _) in (first | second).items()} == {x: x * x for x in (*range(7), 10)}
    processes = {pid for _, pid in first.values()}
    assert len(processes) <= 2 and os.getpid() not in processes
    assert {pid for _, pid in second.values()} <= processes
    _until(lambda: not any(map(_alive, processes)))


def test_a_lost_process_is_a_message() -> None:
    with pytest.raises(InvalidRequest, match=r"a process was killed.*run the same again"):  # noqa: SIM117
        with Workers(lost, 1) as workers:
            list(workers.results([1, 2]))


@pytest.fixture
def hears_interrupts() -> Iterator[None]:
    """As in a terminal: a shell's background jobs, such as tests may be, ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_what_interrupts_the_parent_ends_the_work(hears_interrupts: None, tmp_path: Path) -> None:
    """In a moment, and with what a piece of work does at its end, such as removing half a file."""
    began, said = tmp_path / "began", list[float]()

    def interrupt() -> None:
        _until(began.exists)
        said.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):  # noqa: SIM117
        with Workers(slow, 1) as workers:
            list(workers.results([began]))
    assert not began.exists() and time.perf_counter() - said[0] < 30


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows")
def test_workers_do_not_hear_of_an_interrupt() -> None:
    """Not even while they start; their parent does, and stops them."""
    with Workers(masked, 2) as workers:
        assert all(signal.SIGINT in found for _, found in workers.results([0, 1]))
    assert signal.SIGINT not in masked(0)


def test_a_worker_that_is_stopped_while_it_ends_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with Workers(stopped_at_exit, 1) as workers:
        list(workers.results([0]))
    assert capfd.readouterr().err == ""


@linux
def test_nothing_is_left_for_others_to_clean_up() -> None:
    """No process has a named semaphore, which would stay behind if all of them were killed."""
    before = semaphores(0)  # of other tests in this process
    with Workers(semaphores, 1) as workers:
        ((_, theirs),) = workers.results([0])
    assert theirs == [] and semaphores(0) == before
