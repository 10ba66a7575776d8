"""Work in a process of its own, so that its peak of memory is its own.

The process imports everything first. Its peak is counted beyond that, which is the same for all work.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import torch

from unsc.bench.speed.place import Missing
from unsc.cost import metered
from unsc.errors import UnscError
from unsc.loading.code import import_callable


@dataclass(frozen=True)
class Apart:
    """What work gave, and took."""

    given: dict[str, Any]
    seconds: float
    peak_mib: float
    """The most memory in use at a time, beyond what the process held before."""


def apart(work: str, **arguments: Any) -> Apart:
    """Call `package.module:function` with arguments that JSON can say; it gives a dict of such."""
    words = [sys.executable, "-m", __name__, work, json.dumps(arguments), str(torch.get_num_threads())]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnscError(f"{work} failed in a process of its own (exit {done.returncode}): {done.stderr.strip()[-500:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    if found["peak_mib"] is None:
        raise Missing("the peak of memory is read from /proc, which this system does not offer")
    return Apart(**found)


def main(work: str, arguments: str, threads: str) -> None:
    """Do the work and print what it gave and took, as the last line."""
    torch.set_num_threads(int(threads))
    function = import_callable(work)
    with metered() as cost:
        given = function(**json.loads(arguments)) or {}
    spent = cost()
    print(json.dumps({"given": given, "seconds": spent.seconds, "peak_mib": spent.peak_mib}))


if __name__ == "__main__":
    main(*sys.argv[1:])
