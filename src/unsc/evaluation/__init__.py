"""How well a model forgot and what it kept."""

from unsc.evaluation.accuracy import Evaluation, evaluate

__all__ = ["Evaluation", "evaluate"]
