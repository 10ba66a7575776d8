"""A comparison in its folder: its configuration, its files, and what its methods are given."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset, Subset

from unsc.compare.networks import Networks
from unsc.compare.plan import Config, Training, Trial, trials, tuning, tuning_request
from unsc.compare.scenarios import Asked, Scenario, scenario
from unsc.compare.tuning import Tuned, tune
from unsc.cost import Cost
from unsc.datasets import size_of
from unsc.errors import InvalidData
from unsc.evaluation.shared.metrics import metrics
from unsc.methods import Applied, Method, Problem, apply, find
from unsc.methods.shared.registry import base_name

ORIGINAL = "original"
"""The row of the network that has not forgotten anything."""
RETRAIN = "retrain"
"""The row of a retrained network: it is trained with the other networks, and not once more."""


@dataclass(frozen=True)
class Comparison:
    """A comparison in its folder."""

    folder: Path
    config: Config
    models: Path | None = None
    """Where networks are kept; several comparisons may share them."""

    @cached_property
    def scenario(self) -> Scenario:
        return scenario(self.config.data)

    @cached_property
    def trials(self) -> list[Trial]:
        return trials(self.config, self.scenario.num_classes, len(self.scenario.labels("train")))

    @cached_property
    def networks(self) -> Networks:
        return Networks(self.models or self.folder / "models", self.config.data, self.scenario)

    def tuned_path(self, method: str) -> Path:
        return self.folder / "tuned" / f"{method}.json"

    def result_path(self, trial: Trial, method: str) -> Path:
        return self.folder / "results" / f"trial-{trial.number}" / f"{method}.json"

    def trainings(self) -> list[Training]:
        """All networks, each once. Those that no metric needs are left out."""
        wanted = [x for trial in self.trials for x in trial.trainings if x not in self._idle(trial)]
        if self.config.tune_tries:
            wanted.append(tuning(self.config, self.scenario.num_classes)[0])
        return list({training.key: training for training in wanted}.values())

    def _idle(self, trial: Trial) -> list[Training | None]:
        """Networks of a trial that nothing is measured with."""
        found: list[Training | None] = []
        found += [] if self.retrains else [trial.retrained, trial.twin]
        found += [] if self.wants("shadows") else [*trial.shadow_originals, *trial.shadow_retrained]
        return found + ([] if self.wants("references") else list(trial.references))

    def train(self, training: Training) -> None:
        """Train a network, unless it is there already."""
        self.networks.train(training)

    def tune(self, method: str) -> None:
        """Choose a method's settings on validation data, if there are any to choose."""
        if not self._tunes(method):
            return
        training, _ = tuning(self.config, self.scenario.num_classes)
        asked = tuning_request(self.config, self.scenario.num_classes, len(self.scenario.labels("train")))
        problem = self._problem(self.networks.load(training)[0], asked, seed=training.seed, gone=())
        chosen = find(method)
        tune(
            chosen,
            problem,
            self.scenario.to_choose_by(asked, most=self.config.judge_samples),
            tries=self.config.tune_tries,
            seconds=self.config.tune_seconds,
            given=self._given(chosen),
            path=self.tuned_path(method),
        )

    def settings(self, method: str) -> dict[str, Any]:
        """What a method is run with: what was chosen for it, or given."""
        if method == ORIGINAL:
            return {}
        if not self._tunes(method):
            return self._given(find(method))
        return Tuned.load(self.tuned_path(method)).best.settings

    def apply(self, method: str, model: nn.Module, asked: Asked, *, seed: int, gone: Sequence[int] = ()) -> Applied:
        """Let a method forget what is `asked` from a network whose classes `gone` were forgotten before."""
        if method == ORIGINAL:
            return Applied(model, {}, Cost(0.0, 0.0), None)
        problem = self._problem(model, asked, seed=seed, gone=gone)
        return apply(find(method), problem, **self.settings(method))

    def forget(self, trial: Trial, method: str) -> Applied:
        """What a method makes of a trial's original."""
        request = trial.request(self.scenario.num_classes)
        return self.apply(method, self.networks.load(trial.original)[0], request, seed=trial.original.seed)

    @property
    def retrains(self) -> bool:
        """Whether anything is compared with a retrained network."""
        return RETRAIN in self.config.methods or any(map(self.wants, ("retrained", "retrained_cost", "twin")))

    def wants(self, need: str) -> bool:
        """Whether a metric that is asked for needs this."""
        known = metrics()
        return any(need in known[name].needs for name in self.config.metrics or known)

    def _tunes(self, method: str) -> bool:
        chosen = find(method)
        return bool(self.config.tune_tries and chosen.search.keys() - self._given(chosen))

    def _given(self, method: Method) -> dict[str, Any]:
        prefix = f"{base_name(method.name)}."
        named = {name.removeprefix(prefix): value for name, value in self.config.settings}
        return {name: value for name, value in named.items() if name in method.defaults.keys() - method.decided}

    def _problem(self, model: nn.Module, asked: Asked, *, seed: int, gone: Sequence[int]) -> Problem:
        problem = self.scenario.problem(model, asked, seed=seed, gone=gone)
        draw = problem.generator()

        def some(dataset: Dataset, most: int | None) -> Dataset:
            size = size_of(dataset)
            if most is None or size <= most:
                return dataset
            return Subset(dataset, torch.randperm(size, generator=draw)[:most].tolist())

        retain = some(problem.retain, self.config.retain_samples)
        return replace(problem, retain=retain, forget=some(problem.forget, self.config.forget_samples))


def read_result(path: Path) -> dict[str, Any]:
    """What was measured of one method in one trial."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as e:
        raise InvalidData(f"{path} cannot be read ({e}); remove it, and run the comparison again") from e
