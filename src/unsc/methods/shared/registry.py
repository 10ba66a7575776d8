"""The methods by name: those of this package, and any that another package registers.

A method is one function with one decorator:

    @method(needs=("forget",), search={"lr": Range(1e-4, 1e-1, log=True)})
    def my_method(problem: Problem, *, lr: float = 1e-2) -> nn.Module:
        ...

Another package names the function (or its module) as an entry point of the group `unsc.methods`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import entry_points
from typing import Any, Literal, TypeAlias, TypeVar

from torch import nn

from unsc.errors import InvalidRequest, listing, unknown
from unsc.methods.shared.problem import Need, Problem
from unsc.methods.shared.search import Space
from unsc.result import Forgotten

MethodFunction: TypeAlias = Callable[..., nn.Module | Forgotten]
"""`(problem, *, settings with defaults) -> model`, or a result that holds the model and what was measured."""
Kind: TypeAlias = Literal["classes", "records"]

T = TypeVar("T")
F = TypeVar("F", bound=MethodFunction)

_ABOUT_NEEDS: dict[Need, str] = {
    "forget": "the forgotten training samples (forget=...)",
    "retain": "retained training samples (retain=...)",
    "recipe": "a way to train a new network (recipe=...)",
    "validation": "held-out samples that the network was not trained on (validation=...)",
}


@dataclass(frozen=True)
class Method:
    """A way to forget: `run(problem, **settings)` returns a new model, or a result that holds one."""

    name: str
    run: MethodFunction
    needs: tuple[Need, ...]
    """What it cannot do without."""
    kinds: tuple[Kind, ...]
    """Which requests it can carry out."""
    search: Mapping[str, Space]
    """The few settings worth tuning, and the values to search."""
    control: bool
    """True for what only looks like forgetting."""

    @property
    def defaults(self) -> dict[str, Any]:
        """Its settings and their default values: the published ones, where there are any."""
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
        """All settings: the `given` ones, and defaults for the rest."""
        for name, value in given.items():
            if name not in self.defaults:
                raise unknown(f"setting of {self.name}", name, self.defaults)
            if (wanted := _wanted(self.defaults[name], value)) is not None:
                raise InvalidRequest(f"{self.name}: {name}={value!r}; give {wanted}, such as {self.defaults[name]!r}")
        return self.defaults | dict(given)

    def check(self, problem: Problem) -> None:
        """Refuse a problem that lacks what this method needs."""
        for need in self.needs:
            if not problem.gives(need):
                raise InvalidRequest(f"{self.name} needs {_ABOUT_NEEDS[need]}; give it, or choose another method")
        if problem.request.kind not in self.kinds:
            raise InvalidRequest(
                f"{self.name} forgets {listing(self.kinds)} only, not {problem.request.kind}; choose another method"
            )


_METHODS: dict[str, Method] = {}


def method(
    *,
    needs: tuple[Need, ...],
    search: Mapping[str, Space] | None = None,
    kinds: tuple[Kind, ...] = ("classes", "records"),
    control: bool = False,
) -> Callable[[F], F]:
    """Register a function `(problem, *, settings with defaults) -> model` as a method under its own name."""

    def register(run: F) -> F:
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


@contextmanager
def temporary_methods() -> Iterator[None]:
    """What is registered while this lasts is gone afterwards: for tests, and for trying something out."""
    _load()
    with restored(_METHODS):
        yield


@contextmanager
def restored(table: dict[str, T]) -> Iterator[None]:
    """Whatever changes in `table` while this lasts is undone afterwards."""
    before = dict(table)
    try:
        yield
    finally:
        table.clear()
        table.update(before)


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
    """Names separated by commas; commas between brackets belong to a name."""
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
    """What a setting with this default takes, in words, if it does not take `value`; None if it does."""
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
"""The type of a default, the types that may replace it, and how to say so. bool comes first: to Python it is an int."""


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
