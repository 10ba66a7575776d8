"""Which networks with which seeds: roles never share one, and no class is both tuned on and judged by."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
import torch

from unsc.compare.plan import Config, Training, Trial, current_names, trials, tuning
from unsc.errors import InvalidRequest

CONFIG = Config("digits", ("finetune",), trials=5, shadows=6)


def twin(trial: Trial) -> Training:
    """A trial with shadows has a second retrained network."""
    assert trial.twin is not None
    return trial.twin


def test_no_two_networks_share_a_seed() -> None:
    """Originals, retrained models, twins, shadows of both kinds, references and the tuned network; by other
    configurations too."""
    made = trials(CONFIG, 10)
    for trial in made:
        seeds = [training.seed for training in trial.trainings] + [tuning(CONFIG, 10)[0].seed]
        assert len(seeds) == len(set(seeds)) == 3 + 6 + 6 + 12 + 1
    own = [{t.original.seed, t.retrained.seed, twin(t).seed} for t in made]
    assert not any(a & b for a, b in combinations(own, 2))
    other = trials(replace(CONFIG, seed=1), 10)
    both = [{training.seed for trial in of for training in trial.trainings} for of in (made, other)]
    assert not both[0] & both[1]


def test_every_key_names_one_training() -> None:
    found = [training for trial in trials(CONFIG, 10) for training in trial.trainings]
    assert len({training.key for training in found}) == len(set(found))


def test_the_most_that_is_allowed_still_has_distinct_seeds() -> None:
    made = trials(replace(CONFIG, trials=1000), 3)
    many = trials(replace(CONFIG, trials=1, shadows=500), 3)[0]
    roles = [
        {t.original.seed for t in made},
        {t.retrained.seed for t in made},
        {twin(t).seed for t in made},
        {x.seed for x in many.shadow_originals},
        {x.seed for x in many.shadow_retrained},
        {x.seed for x in many.references},
        {tuning(CONFIG, 3)[0].seed},
    ]
    assert sum(map(len, roles)) == len(set.union(*roles)) == 3 * 1000 + 2 * 500 + 1000 + 1


def test_trials_forget_different_classes_and_never_the_tuned_one() -> None:
    for seed in range(20):
        config = replace(CONFIG, trials=9, seed=seed)
        made = trials(config, 10)
        (tuned,) = tuning(config, 10)[1]
        assert sorted([tuned, *(c for t in made for c in t.classes)]) == list(range(10))
        for trial in made:
            assert not set(trial.classes) & set(trial.later) and tuned not in trial.later
            assert trial.retrained.without == twin(trial).without == trial.classes
            assert all(x.without == trial.classes for x in trial.shadow_retrained)
            assert not any(x.without for x in (trial.original, *trial.shadow_originals, *trial.references))


def test_more_trials_or_methods_leave_the_first_ones_as_they_are() -> None:
    few = trials(replace(CONFIG, trials=2), 10)
    assert trials(CONFIG, 10)[:2] == few
    assert CONFIG.fixed() == replace(CONFIG, trials=9, methods=("unsc", "finetune")).fixed()
    for name, value in {"data": "x:y", "seed": 1, "tune_tries": 1, "tune_seconds": 1.0, "shadows": 3}.items():
        assert CONFIG.fixed() != replace(CONFIG, **{name: value}).fixed()
    assert CONFIG.fixed() != replace(CONFIG, metrics=("seconds",)).fixed()


@pytest.mark.parametrize("size", [2, 9, 100])
def test_a_half_is_half_and_follows_from_its_seed(size: int) -> None:
    chosen = Training(7, half=True).chosen(size)
    assert chosen.shape == (size,) and chosen.dtype == torch.bool and int(chosen.sum()) == size // 2
    assert torch.equal(chosen, Training(7, half=True).chosen(size))


def test_halves_are_drawn_anew_for_each_reference() -> None:
    """Each sample is in about half of the halves: between 20 and 80 of 100."""
    counts = torch.stack([Training(i, half=True).chosen(50) for i in range(100)]).sum(dim=0)
    assert counts.min() > 20 and counts.max() < 80


def test_given_classes_are_forgotten_in_every_trial() -> None:
    """By networks of other seeds; settings are tuned on the first trial's."""
    config = replace(CONFIG, classes=(2, 5))
    made = trials(config, 10)
    assert all(t.classes == t.retrained.without == (2, 5) and not set(t.later) & {2, 5} for t in made)
    assert len({t.original.seed for t in made}) == len({t.retrained.seed for t in made}) == 5
    assert tuning(config, 10) == (made[0].original, (2, 5))
    assert trials(replace(CONFIG, classes=(0, 1), trials=4), 3)[3].later == (2,)


def test_a_sequence_of_five() -> None:
    for trial in trials(replace(CONFIG, later=4), 10):
        assert len({*trial.classes, *trial.later}) == 5
    with pytest.raises(InvalidRequest, match="later=9 with 10 classes; at most 8 leave one"):
        trials(replace(CONFIG, later=9), 10)
    for wrong in ((), (10,), (-1, 2), tuple(range(10))):
        with pytest.raises(InvalidRequest, match="give at least one of 0 to 9, and leave at least one"):
            trials(replace(CONFIG, classes=wrong), 10)


def test_without_shadows_there_are_two_networks_in_a_trial() -> None:
    (trial, *_) = trials(replace(CONFIG, shadows=0), 10)
    assert list(trial.trainings) == [trial.original, trial.retrained] and trial.twin is None


def test_too_few_classes_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="digits has 2 classes; a comparison needs at least 3"):
        trials(CONFIG, 2)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"trials": 0}, "trials=0; it must be at least 1"),
        ({"trials": 1001}, "trials=1001; it must be at most 1000"),
        ({"tune_tries": -1}, "tune_tries=-1; it must be at least 0"),
        ({"shadows": 1}, "shadows=1; give 0, or at least 2"),
        ({"shadows": 501}, "shadows=501; it must be at most 500"),
        ({"seed": -1}, "seed=-1; it must be at least 0"),
        ({"tune_seconds": 0.0}, "tune_seconds=0.0; it must be more than 0"),
        ({"tune_seconds": float("nan")}, "tune_seconds=nan; it must be more than 0"),
    ],
)
def test_bad_configurations_are_refused(wrong: dict, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        replace(CONFIG, **wrong)


def test_the_old_name_of_tries_is_taken_with_a_warning() -> None:
    """As a keyword and as an attribute; both name the new one."""
    old: dict[str, Any] = {"tune_trials": 7}
    with pytest.warns(DeprecationWarning, match="tune_trials is now tune_tries"):
        config = Config("digits", (), **old)
    assert config == Config("digits", (), tune_tries=7)
    with pytest.warns(DeprecationWarning, match="tune_trials is now tune_tries"):
        assert config.tune_trials == 7
    assert current_names({"tune_trials": 7, "seed": 1}) == {"tune_tries": 7, "seed": 1}
