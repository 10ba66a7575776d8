"""What the rooms of comparisons and experiments import: nothing that a plain install lacks, and no room further out."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import unsc

SOURCE = Path(unsc.__file__).parent
FILES = [path for room in ("compare", "bench") for path in sorted((SOURCE / room).rglob("*.py"))]
CORE = {*sys.stdlib_module_names, "torch", "numpy", "safetensors", "unsc"}


def imported(nodes: list[ast.stmt]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(SOURCE)) for path in FILES])
def test_imports(path: Path) -> None:
    """At the top of a file, except what only a type checker reads; `need` gets the rest when it is needed."""
    tree = ast.parse(path.read_text())
    top = set(imported(tree.body))
    assert {name.partition(".")[0] for name in top} <= CORE
    checked = {id(x) for node in tree.body if isinstance(node, ast.If) for x in ast.walk(node)}
    nested = [x for x in ast.walk(tree) if isinstance(x, ast.Import | ast.ImportFrom) and id(x) not in checked]
    assert set(imported(list(nested))) == top
    outer = ("unsc.cli", "unsc.bench") if path.is_relative_to(SOURCE / "compare") else ("unsc.cli",)
    assert not [name for name in top if name.startswith(outer)]
