"""Ways to forget: one file each, one signature, one registry."""

from unsc.methods.shared.apply import Applied, apply
from unsc.methods.shared.problem import Problem, Recipe
from unsc.methods.shared.registry import Method, find, method, methods, split_names
from unsc.methods.shared.search import Choice, Range

__all__ = [
    "Applied",
    "Choice",
    "Method",
    "Problem",
    "Range",
    "Recipe",
    "apply",
    "find",
    "method",
    "methods",
    "split_names",
]
