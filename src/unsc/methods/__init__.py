"""Ways to forget: one file each, one signature, one registry."""

from unsc.methods.shared.apply import Applied, apply
from unsc.methods.shared.problem import NO_DATA, Problem, Recipe, no_recipe
from unsc.methods.shared.registry import Method, MethodFunction, find, method, methods, split_names
from unsc.methods.shared.search import Choice, Range

__all__ = [
    "NO_DATA",
    "Applied",
    "Choice",
    "Method",
    "MethodFunction",
    "Problem",
    "Range",
    "Recipe",
    "apply",
    "find",
    "method",
    "methods",
    "no_recipe",
    "split_names",
]
