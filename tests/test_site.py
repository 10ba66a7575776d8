"""The pictures of the code are right: what they read from the source is what Python says of it."""

from __future__ import annotations

import importlib.util
import sys
import typing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("mkdocs")
SITE = Path(__file__).parents[1] / "docs" / "site"


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SITE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def architecture() -> ModuleType:
    return _module("architecture")


def _named(hint: object) -> set[str]:
    """The names of all classes in an annotation, their bases included."""
    inside = [name for part in typing.get_args(hint) for name in _named(part)]
    return {*inside, *(c.__name__ for c in getattr(hint, "__mro__", ()))}


def test_arrows_are_what_functions_take_and_give(architecture: ModuleType) -> None:
    """By the annotations that Python resolves, where it can: some are there for type checkers alone."""
    checked = 0
    for arrow in (a for a in architecture.arrows() if a.by):
        owner, found = _found(arrow.by)
        try:
            hints = typing.get_type_hints(found)
        except NameError:
            continue
        given = _named(hints.pop("return"))
        taken = {name for hint in hints.values() for name in _named(hint)} | {getattr(owner, "__name__", "")}
        assert arrow.end in given and arrow.start in taken, arrow
        checked += 1
    assert checked > 10


def _is_module(parts: list[str]) -> bool:
    return Path(SITE.parents[1], "src", "unsc", *parts).with_suffix(".py").exists()


def _found(path: str) -> tuple[Any, Any]:
    """What a dotted path in the package names, and what that belongs to."""
    parts = path.split(".")
    depth = next(n for n in range(len(parts) - 1, 0, -1) if _is_module(parts[:n]))
    owner: Any = None
    found: Any = importlib.import_module(f"unsc.{'.'.join(parts[:depth])}")
    for name in parts[depth:]:
        owner, found = found, getattr(found, name)
    return owner, found


def test_every_thing_has_a_place(architecture: ModuleType) -> None:
    picture = architecture.flow()
    assert all(f">{name}</text>" in picture for name in architecture.THINGS)
    steps = {(a.start, a.end) for a in architecture.direct(architecture.arrows())}
    assert {("Task", "RetainedCurvature"), ("RetainedCurvature", "Step"), ("Step", "Outcome")} <= steps


def test_all_rooms_are_drawn_after_those_they_import(architecture: ModuleType) -> None:
    packages = {path.parent.name for path in architecture.SOURCE.glob("*/__init__.py")}
    assert {"methods", "evaluation", "bench", "cli"} <= set(architecture.rooms()) <= packages
    assert architecture.rooms()[-1] == "cli" and architecture.rooms()[0] == "methods"


def test_the_pictures_of_the_method_show_what_their_page_says(tmp_path: Path) -> None:
    """They are drawn anew; gradients lie in the span of inputs, and our direction costs least."""
    pytest.importorskip("matplotlib")
    numbers = _module("pictures").main(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"span.png", "null_space.png", "budget.png"}
    assert numbers["span"]["in_span"] > 1 - 1e-5 and numbers["span"]["moved_out"] < 1e-5
    outputs = numbers["null_space"]
    assert outputs["projected,\nstays"] < 0.2 * outputs["plain,\nstays"]
    gradient, paper, ours = numbers["budget"].values()
    assert ours > paper > gradient
