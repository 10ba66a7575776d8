"""The code blocks of a Markdown page, and what its fences say of them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="(?P<title>[^"]*)"')
NOT_RUN, EXIT_CODE = "Not run in CI: ", "Exit code "


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    line: int
    """Where its first line of text is in the page, counted from 1."""
    language: str
    """The first word after the fence: python, console, toml or text; empty where there is none."""
    title: str
    """What the site shows above it: a file's name, the exit codes that are right, or why it is not run; or empty."""
    text: str

    @property
    def not_run(self) -> str:
        """Why the block is not run; empty where it is."""
        return self.title.removeprefix(NOT_RUN) if self.title.startswith(NOT_RUN) else ""

    @property
    def file(self) -> str:
        """The file that the block is to be saved as; empty where it is none."""
        return "" if self.not_run or self.title.startswith(EXIT_CODE) else self.title

    @property
    def exit_codes(self) -> set[int]:
        """Those that a command may end with."""
        return {int(code) for code in re.findall(r"\d", self.title)} if self.title.startswith(EXIT_CODE) else {0}

    def commands(self) -> list[list[str]]:
        """The words of each command, without comments; a backslash at the end of a line joins it to the next."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [words for line in lines if (words := shlex.split(line, comments=True))]


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    found = []
    for fence in _FENCE.finditer(text):
        info = fence["info"].strip()
        title = _TITLE.search(info)
        line = text.count("\n", 0, fence.start("text")) + 1
        found.append(Block(line, info.partition(" ")[0], title["title"] if title else "", fence["text"]))
    return found
