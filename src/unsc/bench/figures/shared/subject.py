"""What the figures of a data set are measured on: the networks and the data of a comparison's first trial."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from unsc.bench.experiments import Experiment
from unsc.compare.comparison import Comparison
from unsc.compare.plan import Training, Trial
from unsc.compare.scenarios import Scenario
from unsc.errors import Diverged
from unsc.methods import Applied
from unsc.progress import Progress, quiet
from unsc.storage.versions import versions

_METHOD = "unsc"


@dataclass(frozen=True)
class Subject:
    """The networks of the first trial; those that are not there yet are trained."""

    comparison: Comparison
    progress: Progress = quiet

    @classmethod
    def of(cls, experiment: Experiment, work: Path, *, progress: Progress = quiet) -> Subject:
        """With the settings that were chosen for the table; as long as there are none, with the defaults."""
        config = experiment.config
        comparison = Comparison(work / config.data / experiment.name, config, work / "models" / config.data)
        if not comparison.tuned_path(_METHOD).exists():
            comparison = replace(comparison, config=replace(config, tune_tries=0))
        return cls(comparison, progress)

    @property
    def trial(self) -> Trial:
        return self.comparison.trials[0]

    @cached_property
    def original(self) -> nn.Module:
        return self._model(self.trial.original)

    @cached_property
    def retrained(self) -> nn.Module:
        return self._model(self.trial.retrained)

    @property
    def scenario(self) -> Scenario:
        return self.comparison.scenario

    @cached_property
    def applied(self) -> Applied:
        """What this package's own step makes of the original."""
        _ = self.original  # so that it is there
        return self.comparison.forget(self.trial, _METHOD)

    @property
    def unlearned(self) -> nn.Module:
        """The network after this package's own step."""
        if self.applied.model is None:
            reason = f"{_METHOD} diverged on {self.scenario.name}: {self.applied.diverged}"
            raise Diverged(f"{reason}; there is no network to show")
        return self.applied.model

    def _model(self, training: Training) -> nn.Module:
        self.comparison.train(training)
        return self.comparison.networks.load(training)[0]

    def about(self) -> dict[str, Any]:
        """What stands at the head of a figure's numbers: data, networks and versions."""
        trial = self.trial
        networks = {"original": trial.original.key, "retrained": trial.retrained.key}
        return {"data": self.comparison.config.data, "networks": networks, "versions": versions()}
