"""The order of methods in tables and pictures."""

from __future__ import annotations

import random

from unsc.compare.order import blocks
from unsc.methods import methods


def test_every_method_stands_in_one_block_whatever_order_they_come_in() -> None:
    names = [*methods(), "original"]
    shuffled = random.Random(0).sample(names, len(names))
    found = blocks(shuffled)
    assert found == blocks(names)
    assert sorted(found.all) == sorted(names)
    assert found.references == ["original", "retrain"]
    assert found.methods[:2] == ["unsc", "unsc_paper"]
    assert found.methods[2:] == sorted(found.methods[2:])
    assert {name for name in methods() if methods()[name].control} == set(found.controls)


def test_settings_in_brackets_do_not_move_a_method() -> None:
    found = blocks(["ssd", "logit_mask", "unsc_paper[lr=0.04]", "unsc_paper"])
    assert found == ([], ["unsc_paper", "unsc_paper[lr=0.04]", "ssd"], ["logit_mask"])


def test_results_of_a_method_that_is_gone_are_still_shown() -> None:
    assert blocks(["gone", "bias_shift", "retrain", "gone"]) == (["retrain"], ["gone"], ["bias_shift"])
