"""Things by name, registered by the modules of a folder: to add one is to add a file, and no list has to change."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from unsc.errors import InvalidRequest, unknown


class Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


class Registry(Generic[T]):
    """What the modules of a package register, found when it is first asked for."""

    def __init__(self, what: str, package: str) -> None:
        self._what, self._package = what, package
        self._found: dict[str, T] = {}
        self._loaded = False

    def add(self, thing: T) -> T:
        """Register a thing under its own name, which must be new."""
        if thing.name in self._found:
            raise InvalidRequest(f"there is a {self._what} {thing.name} already; give this one another name")
        self._found[thing.name] = thing
        return thing

    def all(self) -> dict[str, T]:
        """Every thing by name, in alphabetical order."""
        if not self._loaded:
            self._loaded = True  # a module that looks others up while it is imported does not start again
            package = importlib.import_module(self._package)
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{self._package}.{module.name}")
        return dict(sorted(self._found.items()))

    def find(self, name: str) -> T:
        known = self.all()
        if name not in known:
            raise unknown(self._what, name, known)
        return known[name]

    @contextmanager
    def temporarily(self, *things: T) -> Iterator[None]:
        """Inside the block `things` are known, in the place of those of their names; afterwards all is as before.

        What is registered inside the block by other means is gone after it, too.
        """
        self.all()
        before = dict(self._found)
        self._found |= {thing.name: thing for thing in things}
        try:
            yield
        finally:
            self._found = before
