"""The budgeted step under a guide that comes from a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from unsc.progress import Progress
from unsc.release.statistics import Statistics
from unsc.steps.blind import BlindStep
from unsc.steps.budgeted import BudgetedRule, BudgetedStep, first_gradients
from unsc.steps.curvature import RetainedCurvature
from unsc.steps.rule import Step
from unsc.task import Task


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredRule(BudgetedRule):
    """Budgeted steps, without any retained sample to make a guide from, and perhaps without one to watch."""

    statistics: Statistics

    def prepare(self, task: Task, progress: Progress) -> RetainedCurvature:
        with progress("guide", 1) as advance:
            made = self.statistics.curvature(task.layers, first_gradients(task))
            advance()
        return made

    def start(self, model: nn.Module, task: Task, guide: RetainedCurvature) -> Step:  # type: ignore[override]
        if task.watch.batches:
            return BudgetedStep(model, task.layers, guide, task.watch, budget=self.budget)
        return BlindStep(model, task.layers, guide, self.statistics.together, budget=self.budget)

    def to_dict(self) -> dict[str, Any]:
        return {"step": self.name, "budget": self.budget}
