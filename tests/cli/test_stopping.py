"""Ctrl-C, sent as a terminal sends it, to a real command and all of its processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import unsc

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of groups of processes")

SLOW = '''
import os, time
from pathlib import Path
import tiny_scenario
from torch import nn
from unsc.methods import Problem, Range, method

make = tiny_scenario.make


@method(needs=(), search={"lr": Range(0.1, 1.0)})
def slow(problem: Problem, *, lr: float = 0.5) -> nn.Module:
    """Takes a minute, unless a file says that it need not."""
    Path("began").touch()
    while not Path("quick").exists():
        time.sleep(0.1)
    return problem.copy()
'''
PROGRESS = re.compile(r"(training networks|tuning|comparing): ")
"""A line of a comparison that is not on a terminal."""
COMPARE = (
    "compare", "--data", "slow_methods:make", "--methods", "slow", "--trials", "1", "--tune-tries", "1",
    "--shadows", "0", "--metrics", "retain_test_acc", "--jobs", "2", "--out", "run",
)  # fmt: skip
TUNE = ("tune", "slow", "--data", "slow_methods:make", "--tries", "2", "--out", "tuned.json")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `unsc` with these words in a folder and a group of its own, all of which is ended after the test."""
    started: list[subprocess.Popen[str]] = []
    (tmp_path / "slow_methods.py").write_text(SLOW)
    paths = tmp_path, Path(__file__).parents[1], Path(unsc.__file__).parents[1]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "COLUMNS": "200"}

    def run(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "unsc", *words], cwd=tmp_path, env=variables, start_new_session=True, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_hear_interrupts,
        )  # fmt: skip
        started.append(process)
        return process

    yield run
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _hear_interrupts() -> None:
    """As in a terminal: a shell's background jobs, such as tests may be, ignore interrupts, and so would theirs."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _until(condition: Callable[[], bool]) -> None:
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.05)
    raise TimeoutError


def _left(group: int) -> list[str]:
    """The state and command of each process of a group, but for those that have ended and wait to be noticed."""
    listed = subprocess.run(["ps", "-eo", "pgid=,stat=,args="], capture_output=True, text=True, check=True)
    fields = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
    return [line[-1] for line in fields if line[0] == str(group) and not line[1].startswith("Z")]


@pytest.mark.parametrize(
    ("words", "at"), [(COMPARE, "began"), (COMPARE, "run/config.json"), (TUNE, "began")], ids=["work", "start", "tune"]
)
def test_a_command_is_stopped(start, tmp_path: Path, words: tuple[str, ...], at: str) -> None:
    """One line, exit code 130, and no process that goes on; the same command then does the rest."""
    process = start(*words)
    _until((tmp_path / at).exists)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    *shown, last = err.splitlines()
    assert (process.returncode, out, last) == (130, "", "stopped; the same command resumes")
    assert [line for line in shown if not PROGRESS.match(line)] == []  # no traceback
    _until(lambda: _left(process.pid) == [])
    hidden = [path.name for path in tmp_path.rglob(".*") if not path.name.startswith(".coverage")]
    assert hidden == []  # no half of a file
    if at != "began":
        return
    (tmp_path / "quick").touch()
    again = start(*words)
    out, err = again.communicate(timeout=120)
    assert again.returncode == 0 and all(map(PROGRESS.match, err.splitlines())) and "Written to" in out
