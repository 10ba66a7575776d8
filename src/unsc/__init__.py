"""Make a trained PyTorch classifier forget classes or records, without retraining it and without hurting what remains.

    result = unsc.forget(model, dataset, classes=[3])
    result.model, result.metrics

The stages underneath: `collect_moments`, `class_bases` and `null_space`, or `retained_curvature`; then `unlearn` and
`evaluate`. Models and data out of files: `load_model` and `load_data`. How well it went: `audit`. Other methods behind
one signature: `unsc.methods`; all of them compared: `unsc.compare`.

Importing this package loads what forgetting needs: torch, numpy and safetensors. The evaluation, the other methods and
the comparison are loaded when they are first used.
"""

__version__ = "0.3.0"

from importlib import import_module
from typing import TYPE_CHECKING

from unsc import deprecated
from unsc.api import forget, retained_curvature, unlearn
from unsc.collect import collect_moments
from unsc.errors import (
    Diverged,
    EmptyNullSpace,
    GuessedTargetsWarning,
    HeadOnlyWarning,
    InvalidData,
    InvalidRequest,
    MissingExtra,
    NotForgotten,
    NotForgottenWarning,
    RankFailed,
    UnscError,
    UnsupportedModel,
)
from unsc.loading.data import LoadedData, load_data
from unsc.loading.limits import Limits
from unsc.loading.models import LoadedModel, load_model
from unsc.moments import Moments
from unsc.options import Options
from unsc.peers import alone
from unsc.request import Request
from unsc.result import Forgotten, RunMetrics
from unsc.steps import StepRule
from unsc.steps.curvature import RetainedCurvature
from unsc.steps.subspace import NullSpace, class_bases, null_space
from unsc.targets import pseudo_labels

__all__ = [
    "Audit",
    "Diverged",
    "EmptyNullSpace",
    "Evaluation",
    "Forgotten",
    "GuessedTargetsWarning",
    "HeadOnlyWarning",
    "InvalidData",
    "InvalidRequest",
    "Limits",
    "LoadedData",
    "LoadedModel",
    "MissingExtra",
    "Moments",
    "NotForgotten",
    "NotForgottenWarning",
    "NullSpace",
    "Options",
    "RankFailed",
    "Request",
    "RetainedCurvature",
    "RunMetrics",
    "StepRule",
    "UnscError",
    "UnsupportedModel",
    "alone",
    "audit",
    "class_bases",
    "collect_moments",
    "evaluate",
    "forget",
    "load_data",
    "load_model",
    "null_space",
    "pseudo_labels",
    "retained_curvature",
    "unlearn",
]

if TYPE_CHECKING:
    from unsc import bench as bench
    from unsc import compare as compare
    from unsc import evaluation as evaluation
    from unsc import methods as methods
    from unsc import release as release
    from unsc.evaluation.accuracy import Evaluation, evaluate
    from unsc.evaluation.audit import Audit, audit
else:  # a checker that saw this function would accept any name
    _LATER = {
        "Audit": "unsc.evaluation.audit",
        "audit": "unsc.evaluation.audit",
        "Evaluation": "unsc.evaluation.accuracy",
        "evaluate": "unsc.evaluation.accuracy",
    }
    _PACKAGES = ("methods", "evaluation", "release", "compare", "bench")

    def __getattr__(name: str) -> object:
        """Public names and packages beyond the core, imported when they are first asked for."""
        if name in _LATER:
            found = getattr(import_module(_LATER[name]), name)
        elif name in _PACKAGES:
            found = import_module(f"unsc.{name}")
        else:
            return deprecated.look_up(__name__, name)
        globals()[name] = found  # the next access does not come here
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


deprecated.install()
