"""Step rules: one file each, with the guide that confines its steps beside it."""

from unsc.steps.rule import Guide, Spent, Step, StepRule, rule_for, step_rules

__all__ = ["Guide", "Spent", "Step", "StepRule", "rule_for", "step_rules"]
