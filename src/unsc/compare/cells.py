"""The pieces of work of a comparison. Each writes one file, whole, and is not done again if that file is there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset, Subset

from unsc.compare.networks import Networks
from unsc.compare.plan import Config, Training, Trial, trials, tuning
from unsc.compare.scenarios import Scenario, scenario
from unsc.compare.tuning import Tuned, tune
from unsc.cost import Cost
from unsc.errors import Diverged, InvalidData
from unsc.evaluation.shared.case import Case, Later, References, Shadows
from unsc.evaluation.shared.metrics import Measured, measure, metrics
from unsc.methods import Applied, Method, Problem, apply, find
from unsc.request import Request
from unsc.storage.files import write_json
from unsc.storage.versions import versions

ORIGINAL = "original"
"""The row of the network that has not forgotten anything."""
RETRAIN = "retrain"
"""The row of a network that was retrained: it is trained with the others, and not once more."""


@dataclass(frozen=True)
class Run:
    """A comparison in its folder."""

    folder: Path
    config: Config
    models: Path | None = None
    """Where networks are kept; several runs may share them."""

    @cached_property
    def scenario(self) -> Scenario:
        return scenario(self.config.data)

    @cached_property
    def trials(self) -> list[Trial]:
        return trials(self.config, self.scenario.num_classes)

    @cached_property
    def networks(self) -> Networks:
        return Networks(self.models or self.folder / "models", self.config.data, self.scenario)

    def tuned_path(self, method: str) -> Path:
        return self.folder / "tuned" / f"{method}.json"

    def result_path(self, trial: Trial, method: str) -> Path:
        return self.folder / "results" / f"trial-{trial.number}" / f"{method}.json"

    def trainings(self) -> list[Training]:
        """All networks, each once."""
        wanted = [x for trial in self.trials for x in trial.trainings if self._retrains or x is not trial.retrained]
        if self.config.tune_trials:
            wanted.append(tuning(self.config, self.scenario.num_classes)[0])
        return list({training.key: training for training in wanted}.values())

    def train(self, training: Training) -> None:
        """Train a network, if it is not there."""
        self.networks.train(training)

    def tune(self, method: str) -> None:
        """Choose a method's settings on validation data, if there are any to choose."""
        if not self._tunes(method):
            return
        training, classes = tuning(self.config, self.scenario.num_classes)
        problem = self._problem(self.networks.load(training)[0], classes, seed=training.seed)
        validation = self.scenario.to_choose_by(classes, most=self.config.judge_samples)
        budget: Any = {"trials": self.config.tune_trials, "seconds": self.config.tune_seconds}
        chosen = find(method)
        tune(chosen, problem, validation, given=self._given(chosen), path=self.tuned_path(method), **budget)

    def settings(self, method: str) -> dict[str, Any]:
        """What a method is run with: what was chosen for it, or given."""
        if method == ORIGINAL:
            return {}
        if not self._tunes(method):
            return self._given(find(method))
        return Tuned.load(self.tuned_path(method)).best.settings

    def _tunes(self, method: str) -> bool:
        chosen = find(method)
        return bool(self.config.tune_trials and chosen.search.keys() - self._given(chosen))

    def _given(self, method: Method) -> dict[str, Any]:
        plain = method.name.partition("[")[0]
        named = {name.removeprefix(f"{plain}."): value for name, value in self.config.settings}
        return {name: value for name, value in named.items() if name in method.defaults.keys() - method.decided}

    def judge(self, trial: Trial, method: str) -> None:
        """Let a method forget, and measure what came of it; a method that falls apart has that as its result."""
        path = self.result_path(trial, method)
        if path.exists():
            return
        original = self._yardstick(trial).model
        if method == RETRAIN:
            retrained, cost = self.networks.load(trial.twin or trial.retrained)
            applied = Applied(retrained, {}, cost, None)
        else:
            applied = self._apply(method, original, trial.classes, seed=trial.original.seed)
        content: dict[str, Any] = {
            "trial": trial.number,
            "method": method,
            "classes": trial.classes,
            "later": trial.later,
            "seed": trial.original.seed,
            "settings": applied.settings,
            "noted": applied.noted,
            "cost": asdict(applied.cost),
            "diverged": applied.diverged,
            "measured": {"values": {}, "skipped": {}},
            "versions": versions(),
        }
        if applied.model is not None:
            case = self._case(trial, method, applied)
            content["measured"] = self._measure(case).to_dict()
            case.keep_logits(case.original, case.retrained, *(case.references.models if case.references else ()))
        write_json(path, content)

    def forget(self, trial: Trial, method: str) -> Applied:
        """What a method makes of a trial's original."""
        return self._apply(method, self.networks.load(trial.original)[0], trial.classes, seed=trial.original.seed)

    def _measure(self, case: Case) -> Measured:
        """What was asked for, except what needs shadows if the method fell apart on one of them."""
        asked, known = self.config.metrics, metrics()
        lost = [] if case.shadows is not None else [n for n in asked or () if "shadows" in known[n].needs]
        found = measure(case, asked and [n for n in asked if n not in lost])
        return replace(found, skipped=found.skipped | dict.fromkeys(lost, "it fell apart on a shadow model"))

    def _apply(
        self, method: str, model: nn.Module, classes: Sequence[int], *, seed: int, gone: Sequence[int] = ()
    ) -> Applied:
        if method == ORIGINAL:
            return Applied(model, {}, Cost(0.0, 0.0), None)
        problem = self._problem(model, classes, seed=seed, gone=gone)
        return apply(find(method), problem, **self.settings(method))

    def _problem(self, model: nn.Module, classes: Sequence[int], *, seed: int, gone: Sequence[int] = ()) -> Problem:
        problem = self.scenario.problem(model, classes, seed=seed, gone=gone)
        draw = problem.generator()

        def some(dataset: Dataset, most: int | None) -> Dataset:
            size = len(dataset)  # type: ignore[arg-type]
            if most is None or size <= most:
                return dataset
            return Subset(dataset, torch.randperm(size, generator=draw)[:most].tolist())

        retain = some(problem.retain, self.config.retain_samples)
        return replace(problem, retain=retain, forget=some(problem.forget, self.config.forget_samples))

    def _forgotten(self, method: str, model: nn.Module, classes: Sequence[int], **keywords: Any) -> nn.Module:
        applied = self._apply(method, model, classes, **keywords)
        if applied.model is None:
            raise Diverged(f"{method} fell apart on another network or request: {applied.diverged}")
        return applied.model

    def _yardstick(self, trial: Trial) -> Case:
        """The case of a trial's original. Those of its methods share its parts, networks and their scores."""
        if trial.number not in self._yardsticks:
            self._yardsticks.clear()  # results come trial by trial
            original, _ = self.networks.load(trial.original)
            retrained, cost = self.networks.load(trial.retrained) if self._retrains else (None, None)
            self._yardsticks[trial.number] = Case(
                original,
                Request.for_classes(trial.classes, self.scenario.num_classes),
                self.scenario.parts(trial.classes, most=self.config.judge_samples),
                original=original,
                retrained=retrained,
                references=self._references(trial) if trial.references and self._wants("references") else None,
                retrained_cost=cost,
                seed=trial.original.seed,
            )
        return self._yardsticks[trial.number]

    @cached_property
    def _yardsticks(self) -> dict[int, Case]:
        return {}

    def _case(self, trial: Trial, method: str, applied: Applied) -> Case:
        assert applied.model is not None
        twin = trial.twin and (applied.model if method == RETRAIN else self.networks.load(trial.twin)[0])
        return replace(
            self._yardstick(trial),
            model=applied.model,
            twin=twin,
            shadows=self._shadows(trial, method) if trial.shadow_originals and self._wants("shadows") else None,
            later=Later(
                trial.later,
                lambda model: self._forgotten(method, model, trial.later, seed=trial.original.seed, gone=trial.classes),
            ),
            cost=applied.cost,
        )

    @property
    def _retrains(self) -> bool:
        """Whether anything is compared with a retrained network."""
        return RETRAIN in self.config.methods or any(map(self._wants, ("retrained", "retrained_cost", "twin")))

    def _wants(self, need: str) -> bool:
        """Whether a metric that is asked for needs this."""
        known = metrics()
        return any(need in known[name].needs for name in self.config.metrics or known)

    def _shadows(self, trial: Trial, method: str) -> Shadows | None:
        try:
            unlearned = tuple(
                self._forgotten(method, self.networks.load(shadow)[0], trial.classes, seed=shadow.seed)
                for shadow in trial.shadow_originals
            )
        except Diverged:
            return None
        return Shadows(unlearned, tuple(self.networks.load(shadow)[0] for shadow in trial.shadow_retrained))

    def _references(self, trial: Trial) -> References:
        size = len(self.scenario.labels("train"))
        saw = torch.stack([reference.chosen(size) for reference in trial.references])
        models = tuple(self.networks.load(reference)[0] for reference in trial.references)
        judged = self.scenario.positions("train", trial.classes, most=self.config.judge_samples)
        return References(models, {part: saw[:, chosen] for part, chosen in judged.items()})


def read_result(path: Path) -> dict[str, Any]:
    """A result that `judge` wrote."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as e:
        raise InvalidData(f"{path} cannot be read ({e}); remove it, and run the comparison again") from e
