"""Ways to forget: one file each, one signature, one registry."""

from unsc.methods.apply import Applied, apply
from unsc.methods.problem import Problem, Recipe
from unsc.methods.registry import Method, find, method, methods, split_names
from unsc.methods.search import Choice, Range

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
