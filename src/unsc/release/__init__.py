"""From a deletion request to a released model with evidence: a store, a gate, a ledger and signed receipts.

The stages are functions: `prepare`, `forget`, `verify`, `log`, `show` and `rollback`. They are loaded when they are
first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = ["forget", "log", "plan_store", "prepare", "rehearse", "rollback", "show", "verify"]

if TYPE_CHECKING:
    from unsc.release.preparing import plan_store
    from unsc.release.stages import forget, log, prepare, rehearse, rollback, show, verify
else:  # a checker that saw this function would accept any name

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = "unsc.release.preparing" if name == "plan_store" else "unsc.release.stages"
        globals()[name] = found = getattr(import_module(module), name)  # the next access does not come here
        return found
