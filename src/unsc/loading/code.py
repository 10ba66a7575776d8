"""Find a user's own callable by its import path, `package.module:name`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

from unsc.errors import InvalidRequest, UnscError, listing


def is_import_path(text: str) -> bool:
    """Whether it has the form `package.module:name`."""
    module, colon, name = text.partition(":")
    return bool(colon) and _is_dotted(module) and _is_dotted(name)


def import_callable(path: str, *, search: Path = Path(".")) -> Callable[..., Any]:
    """The callable at `path`: "package.module:name" or "module:Class.method". The folder `search` is searched too."""
    module_name, _, name = path.partition(":")
    if not is_import_path(path):
        raise InvalidRequest(f"{path!r} is not an import path; write package.module:name, as in my_models:make_network")
    module = _import(module_name, path, str(search.resolve()))
    try:
        found = reduce(getattr, name.split("."), module)
    except AttributeError:
        public = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        offered = f"it has {listing(public)}" if public else "it has no public callable"
        raise InvalidRequest(
            f"module {module_name} has no {name!r}; {offered}: correct the part after the colon"
        ) from None
    if not callable(found):
        raise InvalidRequest(f"{path} is a {type(found).__name__}, which cannot be called; name a function or a class")
    return found


def made_by(path: str, *, search: Path = Path(".")) -> Any:
    """What the user's callable at `path`, as in `package.module:callable`, returns when called without arguments."""
    make = import_callable(path, search=search)
    try:
        return make()
    except UnscError:
        raise
    except (Exception, SystemExit) as e:  # whatever the user's code may raise: sys.exit() would pass for a success
        raise InvalidRequest(f"{path}() failed ({type(e).__name__}: {e}); it must work without arguments") from e


def _is_dotted(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


def _import(name: str, path: str, here: str) -> ModuleType:
    """Import module `name`; a module that is missing and one that fails while it runs are different errors."""
    if here not in sys.path and not ("" in sys.path and here == str(Path.cwd())):
        sys.path.insert(0, here)  # unlike `python -m`, an installed command does not search the current folder
    importlib.invalidate_caches()  # the file may be newer than Python's last look at the folder
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        if e.name is not None and (name == e.name or name.startswith(f"{e.name}.")):
            raise InvalidRequest(
                f"there is no module {e.name!r} (for {path!r}) in {here} or among the installed packages; "
                "correct the part before the colon, or run from the folder that holds it"
            ) from e
        raise InvalidRequest(f"{name} imports {e.name!r}, which is not installed; install it and try again") from e
    except (Exception, SystemExit) as e:  # a user's module can raise anything, and so can a script without a guard
        raise InvalidRequest(f"importing {name} fails with {type(e).__name__}: {e}; correct it and try again") from e
