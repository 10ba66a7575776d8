"""What code a result was made with."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from pathlib import Path

import torch


def versions() -> dict[str, str]:
    """What this result was made with."""
    from unsc import __version__

    made_with = {"unsc": __version__, "torch": torch.__version__, "python": platform.python_version()}
    return made_with | ({"commit": found} if (found := commit(Path(__file__).parent)) else {})


@cache
def commit(folder: Path) -> str | None:
    """The git commit of the code in `folder`, with a plus if the code differs from it; None if git has not got it."""

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True)

    try:
        if not git("ls-files", ".").stdout:  # installed, perhaps inside somebody else's repository
            return None
        changed = git("diff", "--quiet", "HEAD", "--", ".").returncode
        return git("rev-parse", "--short=12", "HEAD").stdout.strip() + ("+" if changed else "")
    except OSError:
        return None
