"""Compare methods on the same data, tuned and judged in the same way."""

from unsc.compare.plan import Config
from unsc.compare.run import Finished, chosen_methods, compare
from unsc.compare.scenarios import Scenario, scenario

__all__ = ["Config", "Finished", "Scenario", "chosen_methods", "compare", "scenario"]
