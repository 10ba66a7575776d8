"""Make a trained PyTorch classifier forget classes or records, without retraining it and without hurting what remains.

    result = unsc.forget(model, dataset, classes=[3])
    result.model, result.metrics

The stages underneath: `collect_moments`, `class_bases` and `null_space`, `unlearn`, `evaluate`. How well it went:
`audit`. Other methods behind one signature: `unsc.methods`; all of them compared: `unsc.compare`.
"""

__version__ = "0.2.0"

from unsc.api import forget, unlearn
from unsc.collect import collect_moments
from unsc.errors import EmptyNullSpace, InvalidData, InvalidRequest, UnscError, UnsupportedModel
from unsc.evaluation import Evaluation, evaluate
from unsc.evaluation.audit import Audit, audit
from unsc.moments import Moments
from unsc.options import Options
from unsc.result import Forgotten
from unsc.steps.curvature import RetainedCurvature
from unsc.steps.subspace import NullSpace, class_bases, null_space
from unsc.targets import pseudo_labels

__all__ = [
    "Audit",
    "EmptyNullSpace",
    "Evaluation",
    "Forgotten",
    "InvalidData",
    "InvalidRequest",
    "Moments",
    "NullSpace",
    "Options",
    "RetainedCurvature",
    "UnscError",
    "UnsupportedModel",
    "audit",
    "class_bases",
    "collect_moments",
    "evaluate",
    "forget",
    "null_space",
    "pseudo_labels",
    "unlearn",
]
