"""Step rules: one file each, with the guide that confines its steps beside it."""

from unsc.steps.rule import Guide, Step, StepRule, rule_for, step_rules

__all__ = ["Guide", "Step", "StepRule", "rule_for", "step_rules"]
