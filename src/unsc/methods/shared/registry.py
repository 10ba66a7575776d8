"""The methods by name: those of this package, and any that another package registers.

A method is one function with one decorator:

    @method(needs=("forget",), search={"lr": Range(1e-4, 1e-1, log=True)})
    def my_method(problem: Problem, *, lr: float = 1e-2) -> nn.Module:
        ...

From outside, name the function (or its module) as an entry point of the group `unsc.methods`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import entry_points
from typing import Any, Literal, TypeAlias

from torch import nn

from unsc.errors import InvalidRequest, listing, unknown
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.search import Space
from unsc.result import Forgotten

Run: TypeAlias = Callable[..., nn.Module | Forgotten]
Need: TypeAlias = Literal["forget", "retain", "recipe"]
Kind: TypeAlias = Literal["classes", "records"]

_ABOUT_NEEDS = {
    "forget": "the forgotten training samples (forget=...)",
    "retain": "retained training samples (retain=...)",
    "recipe": "a way to train a new network (recipe=...)",
}


@dataclass(frozen=True)
class Method:
    """A way to forget: `run(problem, **settings)` gives a new model, or one with what was measured on the way."""

    name: str
    run: Run
    needs: tuple[Need, ...]
    """What it cannot do without."""
    kinds: tuple[Kind, ...]
    """Which requests it can carry out."""
    search: Mapping[str, Space]
    """The few settings worth tuning, and where to look."""
    control: bool
    """True for what only looks like forgetting."""

    @property
    def defaults(self) -> dict[str, Any]:
        """Its settings, as published where they are."""
        parameters = list(inspect.signature(self.run).parameters.values())[1:]
        return {p.name: p.default for p in parameters}

    @property
    def decided(self) -> dict[str, Any]:
        """The settings that its name has in brackets."""
        return dict(self.run.keywords) if isinstance(self.run, partial) else {}

    @property
    def about(self) -> str:
        """Its docstring: source, mechanism, data, published settings, departures."""
        return inspect.getdoc(self.run.func if isinstance(self.run, partial) else self.run) or ""

    def settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All settings, `given` in the place of defaults."""
        for name, value in given.items():
            if name not in self.defaults:
                raise unknown(f"setting of {self.name}", name, self.defaults)
            if (wanted := _wanted(self.defaults[name], value)) is not None:
                raise InvalidRequest(f"{self.name}: {name}={value!r}; give {wanted}, such as {self.defaults[name]!r}")
        return self.defaults | dict(given)

    def check(self, problem: Problem) -> None:
        """Refuse a problem that lacks what this method needs."""
        for need in self.needs:
            part = getattr(problem, need)
            if part is None or (need != "recipe" and len(part) == 0):
                raise InvalidRequest(f"{self.name} needs {_ABOUT_NEEDS[need]}; give it, or choose another method")
        kind = "records" if problem.classes is None else "classes"
        if kind not in self.kinds:
            raise InvalidRequest(f"{self.name} forgets {listing(self.kinds)} only, not {kind}; choose another method")


_METHODS: dict[str, Method] = {}


def method(
    *,
    needs: tuple[Need, ...],
    search: Mapping[str, Space] | None = None,
    kinds: tuple[Kind, ...] = ("classes", "records"),
    control: bool = False,
) -> Callable[[Run], Run]:
    """Register a function `(problem, *, settings with defaults) -> model` as a method under its own name."""

    def register(run: Run) -> Run:
        name = getattr(run, "__name__", repr(run))
        known = _METHODS.get(name)
        if known is not None and inspect.getmodule(known.run) is not inspect.getmodule(run):
            raise InvalidRequest(f"there is a method {name} already; give this one another name")
        made = Method(name, run, needs, kinds, dict(search or {}), control)
        missing = [k for k, default in made.defaults.items() if default is inspect.Parameter.empty]
        if missing or set(made.search) - set(made.defaults):
            raise InvalidRequest(f"{name}: every setting needs a default, and every searched one must be a setting")
        _METHODS[name] = made
        return run

    return register


def methods() -> dict[str, Method]:
    """Every method by name, in alphabetical order, controls last."""
    _load()
    return dict(sorted(_METHODS.items(), key=lambda item: (item[1].control, item[0])))


def find(name: str) -> Method:
    """The method of this name; `name[lr=0.1, epochs=2]` is the same with other defaults, which are not tuned."""
    known = methods()
    plain = base_name(name)
    if plain not in known:
        raise unknown("method", plain, known)
    found = known[plain]
    if name == plain:
        return found
    given = _parse(name, name[len(plain) + 1 :])
    found.settings(given)
    search = {key: space for key, space in found.search.items() if key not in given}
    return replace(found, name=name, run=partial(found.run, **given), search=search)


def base_name(name: str) -> str:
    """A method's name without the settings in brackets."""
    return name.partition("[")[0]


def split_names(text: str) -> list[str]:
    """Names separated by commas, but for the commas between brackets."""
    return [part.strip() for part in re.split(r",(?![^\[]*\])", text) if part.strip()]


def _parse(name: str, settings: str) -> dict[str, Any]:
    try:
        if not settings.endswith("]"):
            raise ValueError
        pairs = [part.split("=", 1) for part in settings[:-1].split(",")]
        return {key.strip(): _value(value.strip()) for key, value in pairs}
    except ValueError:
        raise InvalidRequest(f"{name!r} is not a method with settings; write name[setting=value, ...]") from None


def _wanted(default: Any, value: Any) -> str | None:
    """What a setting with this default takes instead of `value`, in words; None if it may take it."""
    if value is None or default is None:
        return None
    for kind, allowed, words in _KINDS:
        if isinstance(default, kind):
            fits = isinstance(value, allowed) and (kind is bool or not isinstance(value, bool))
            return None if fits else words
    return None


_KINDS: tuple[tuple[type, type | tuple[type, ...], str], ...] = (
    (bool, bool, "True or False"),
    (int, int, "a whole number"),
    (float, (int, float), "a number"),
    (str, str, "a word"),
)
"""What a default is, what may take its place, and how to say so; True is an int to Python, so that it comes first."""


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text  # a word, without quotes


@cache
def _load() -> None:
    package = importlib.import_module("unsc.methods")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"unsc.methods.{module.name}")
    for outside in entry_points(group="unsc.methods"):
        try:
            outside.load()
        except Exception as e:  # whatever another package's code may raise
            raise InvalidRequest(f"the method {outside.name} of {outside.value} cannot be loaded: {e}") from e
