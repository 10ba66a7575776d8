"""Calls of modules during a forward pass, seen by hooks that are removed afterwards."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from unsc.sharded import hooks_of_sharding_last, nobody_looks

M = TypeVar("M", bound=nn.Module)
T = TypeVar("T")


@dataclass(frozen=True)
class Call(Generic[M]):
    """One call of a module: what it was given and what it returned."""

    path: str
    """The module's path in its model."""
    module: M
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any
    _worked_out: dict[object, Any] = field(default_factory=dict, compare=False, repr=False)

    def once(self, work: Callable[[Call[M]], T]) -> T:
        """What `work` makes of this call, done the first time that it is asked for: layers of one module share it."""
        if work not in self._worked_out:
            self._worked_out[work] = work(self)
        return self._worked_out[work]

    @property
    def first(self) -> Tensor:
        """The first argument, by position or by whatever name."""
        return self.args[0] if self.args else next(iter(self.kwargs.values()))

    def argument(self, position: int, name: str) -> Tensor:
        """The argument at `position`, or of this name."""
        return self.args[position] if position < len(self.args) else self.kwargs[name]

    def option(self, position: int, name: str) -> Any:
        """As `argument`, for one that may be left out; None then."""
        return self.args[position] if position < len(self.args) else self.kwargs.get(name)


@contextmanager
def hooked(modules: Mapping[str, nn.Module], receive: Callable[[Call[Any]], Tensor | None]) -> Generator[None]:
    """While active, `receive` gets each call of `modules`, which are given by path.

    What it returns takes the place of the module's output, unless it is None. Calls that `receive` itself makes are
    not handed to it.
    """
    receiving = False

    def hook(path: str) -> Callable[[nn.Module, tuple[Any, ...], dict[str, Any], Any], Tensor | None]:
        def call(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Tensor | None:
            nonlocal receiving
            if receiving or nobody_looks():
                return None
            receiving = True
            try:
                return receive(Call(path, module, args, kwargs, output))
            finally:
                receiving = False

        return call

    handles: list[RemovableHandle] = []
    try:
        for path, module in modules.items():
            handles.append(module.register_forward_hook(hook(path), with_kwargs=True))
            hooks_of_sharding_last(module)
        yield
    finally:
        for handle in handles:
            handle.remove()
