"""The shape of the code: which rooms may know which, and how long files and functions get. Read from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

import pytest

import unsc

SOURCE = Path(unsc.__file__).parent

ROOMS = ("core", "methods", "evaluation", "release", "compare", "bench", "report", "cli")
"""A room may import itself and those before it."""

CORE = (
    ("errors", "checks", "progress", "cost", "extras", "memory", "pieces", "workers", "cluster", "peers", "launch"),
    ("storage",),
    ("wrappers", "sharded", "shards", "batches", "on_demand", "grad_mode"),
    ("sketches",),
    ("forms", "names", "dropped"),
    ("datasets", "logits", "streams"),
    ("loading",),
    ("layers",),
    ("models", "pooled_head", "features", "coverage", "layout", "folding"),
    ("eigen", "gram", "moments", "collect", "ranks", "ridge"),
    ("request", "looks", "duplicates"),
    ("targets",),
    ("verdict", "validation", "history", "loaders", "depth"),
    ("watch", "said", "task", "ending"),
    ("steps",),
    ("loop", "outputs", "balance", "measures", "going_back", "repair", "drift"),
    ("final",),
    ("options",),
    ("result", "promises", "reference", "beside", "ground"),
    ("run", "start", "opening"),
    ("api",),
)
"""Groups of modules and packages of the core. A group may import itself and those before it."""

OUTSIDE = ("unsc", "unsc.__main__", "unsc.deprecated")
"""Doors to the house: they hold no logic and may open any room."""


def _modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ("unsc", *path.relative_to(SOURCE).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = _modules()
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}


def _imported(module: str, node: ast.AST) -> Iterator[str]:
    """The modules of the package that an import statement names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in MODULES)
    elif isinstance(node, ast.ImportFrom):
        package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
        base = resolve_name("." * node.level + (node.module or ""), package)
        for alias in node.names:
            if f"{base}.{alias.name}" in MODULES:
                yield f"{base}.{alias.name}"
            elif base in MODULES and alias.name != "__version__":
                yield base


def _imports(module: str) -> set[str]:
    """What a module imports anywhere, in functions too."""
    return {name for node in ast.walk(TREES[module]) for name in _imported(module, node)}


def _imports_at_once(module: str) -> set[str]:
    """What a module imports while it is itself imported: not in functions, nor for type checkers alone."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(TREES[module].body)
    while waiting:
        node = waiting.pop()
        found |= set(_imported(module, node))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
    return found


def _room(module: str) -> str:
    name = module.split(".")[1]
    return name if name in ROOMS else "core"


def _group(module: str) -> int:
    """Where a module of the core stands; the test that all are listed is below."""
    name = module.split(".")[1]
    return next((i for i, group in enumerate(CORE) if name in group), -1)


def _inside() -> Iterator[tuple[str, str]]:
    """Pairs of a module and one that it imports."""
    for module in MODULES:
        if module not in OUTSIDE:
            yield from ((module, other) for other in sorted(_imports(module)) if other not in OUTSIDE)


def test_rooms_know_only_those_before_them() -> None:
    wrong = [
        f"{module} -> {other}" for module, other in _inside() if ROOMS.index(_room(other)) > ROOMS.index(_room(module))
    ]
    assert wrong == []


def test_the_core_is_in_order() -> None:
    core = {module for module in MODULES if module not in OUTSIDE and _room(module) == "core"}
    assert {module for module in core if _group(module) < 0} == set(), "give it a place in CORE"
    assert [f"{a} -> {b}" for a, b in _inside() if {a, b} <= core and _group(b) > _group(a)] == []


def test_the_core_needs_no_door() -> None:
    """Modules import what they need from where it is, not from `unsc` itself; only the command line uses the door."""
    wrong = [module for module in MODULES if module not in OUTSIDE and "unsc" in _imports(module)]
    assert [module for module in wrong if _room(module) != "cli"] == []


def test_there_are_no_circles() -> None:
    """Modules in an order in which each is imported after all that it imports, or the circle that forbids it.

    Importing `a.b` imports the package `a` first, except for modules of `a` itself.
    """
    edges = {
        module: {
            other
            for name in _imports_at_once(module)
            for other in (name, *_packages(name))
            if other != module and other not in _packages(module)
        }
        for module in MODULES
        if module != "unsc"
    }
    while free := [module for module, others in edges.items() if not others & edges.keys()]:
        for module in free:
            del edges[module]
    assert _circle(edges) == []


def _packages(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:n]) for n in range(2, len(parts))]


def _circle(edges: dict[str, set[str]]) -> list[str]:
    """Some circle among modules that each import another of them."""
    if not edges:
        return []
    path = [min(edges)]
    while path[-1] not in path[:-1]:
        path.append(min(edges[path[-1]] & edges.keys()))
    return path[path.index(path[-1]) :]


@pytest.mark.parametrize("package", ["unsc", "unsc.methods", "unsc.evaluation", "unsc.compare"])
def test_no_function_hides_a_module(package: str) -> None:
    module = __import__(package, fromlist=["*"])
    functions = {name for name in module.__all__ if callable(getattr(module, name))}
    assert {name for name in functions if f"{package}.{name}" in MODULES} == set()


def test_files_are_short() -> None:
    lengths = {name: len(path.read_text().splitlines()) for name, path in MODULES.items()}
    assert {name: length for name, length in lengths.items() if length > 300} == {}


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Without the docstring: a method's says at length what it does and where it is from."""
    documented = ast.get_docstring(function) is not None
    docstring = function.body[0] if documented else None
    first, last = (docstring.lineno, docstring.end_lineno or 0) if docstring else (1, 0)
    return (function.end_lineno or 0) - function.lineno + 1 - (last - first + 1)


def test_functions_are_short() -> None:
    lengths = {
        f"{module}.{node.name}": _lines(node)
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: length for name, length in lengths.items() if length > 50} == {}


def test_there_are_no_assert_statements() -> None:
    """A user's mistake is an error with a message; what cannot be should not need to be said."""
    found = [
        f"{m}:{node.lineno}" for m, tree in TREES.items() for node in ast.walk(tree) if isinstance(node, ast.Assert)
    ]
    assert found == []
