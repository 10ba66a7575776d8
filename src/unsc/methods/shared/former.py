"""The arguments of 0.2.0, which named what to forget by `num_classes` and `classes` instead of a `Request`.

They work for one release. Then this file goes, and with it the decorator on `Problem` and on `Case`.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

from unsc.request import Request

T = TypeVar("T")


def accepts_former_arguments(cls: type[T]) -> type[T]:
    """Let the data class `cls(model, request, ...)` also be made by `cls(model, num_classes, classes, ...)`."""
    make: Callable[..., None] = cls.__init__
    name = cls.__name__
    former = ["model", "num_classes", "classes", *(field.name for field in fields(cls)[2:])]  # type: ignore[arg-type]

    @functools.wraps(make)
    def init(self: T, *args: Any, **named: Any) -> None:
        if "num_classes" not in named and not (len(args) > 1 and isinstance(args[1], int)):
            return make(self, *args, **named)
        warnings.warn(
            f"{name}(model, num_classes, classes, ...) is deprecated and goes with the next release; write "
            f"{name}(model, Request.for_classes(classes, num_classes), ...), or Request.for_records(None, num_classes) "
            "for records (from unsc import Request)",
            DeprecationWarning,
            stacklevel=2,
        )
        given = dict(zip(former, args, strict=False)) | named
        num_classes, classes = given.pop("num_classes"), given.pop("classes", None)
        if classes is None:
            request = Request.for_records(None, num_classes)
        else:
            request = Request.for_classes(classes, num_classes)
        there = {key: value for key, value in given.items() if value is not None}  # None stood for what was left out
        make(self, request=request, **there)

    cls.__init__ = init
    return cls
