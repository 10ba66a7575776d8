"""Where forgotten samples go, one rule a name; see `unsc.targets.rule`."""

from unsc.targets.classes import Hard, PseudoLabels, Random, Soft, pseudo_labels
from unsc.targets.correcting import fitting_labels
from unsc.targets.goal import Goal, Gone, Near, Unnoticed
from unsc.targets.readout import Readout, Views, read_out, views_of
from unsc.targets.records import Away, Expected, Lowered, Relabel, Unseen
from unsc.targets.rule import TARGETS, Evidence, TargetRule, Targets, as_rule, find_targets
from unsc.targets.scores import NO_SCORES, Scores, margins, scores_of, scores_of_all

__all__ = [
    "NO_SCORES",
    "TARGETS",
    "Away",
    "Evidence",
    "Expected",
    "Goal",
    "Gone",
    "Hard",
    "Lowered",
    "Near",
    "PseudoLabels",
    "Random",
    "Readout",
    "Relabel",
    "Scores",
    "Soft",
    "TargetRule",
    "Targets",
    "Unnoticed",
    "Unseen",
    "Views",
    "as_rule",
    "find_targets",
    "fitting_labels",
    "margins",
    "pseudo_labels",
    "read_out",
    "scores_of",
    "scores_of_all",
    "views_of",
]
