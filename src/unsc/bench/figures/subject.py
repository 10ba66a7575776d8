"""What the figures of a data set show: the networks and the data of a comparison's first trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unsc.bench.experiments import Experiment
from unsc.bench.figures import contour, latent, pseudo
from unsc.compare.cells import Run
from unsc.compare.plan import Training, Trial
from unsc.datasets import read
from unsc.errors import Diverged
from unsc.methods import Applied
from unsc.progress import Progress, quiet
from unsc.storage.versions import versions

_METHOD = "unsc"
_LOSS_SAMPLES, _LATENT_SAMPLES = 500, 2000


@dataclass(frozen=True)
class Subject:
    """The networks of the first trial; one that is not kept yet is trained."""

    run: Run
    progress: Progress = quiet

    @classmethod
    def of(cls, experiment: Experiment, work: Path, *, progress: Progress = quiet) -> Subject:
        """With the settings that were chosen for the table; as long as there are none, with the defaults."""
        config = experiment.config
        run = Run(work / config.data / experiment.name, config, work / "models" / config.data)
        if not run.tuned_path(_METHOD).exists():
            run = replace(run, config=replace(config, tune_trials=0))
        return cls(run, progress)

    @property
    def trial(self) -> Trial:
        return self.run.trials[0]

    @cached_property
    def original(self) -> nn.Module:
        return self._model(self.trial.original)

    @cached_property
    def retrained(self) -> nn.Module:
        return self._model(self.trial.retrained)

    @cached_property
    def unlearned(self) -> Applied:
        """By this package's own step."""
        _ = self.original  # so that it is there
        return self.run.forget(self.trial, _METHOD)

    def measures(self) -> dict[str, Callable[[], dict[str, Any]]]:
        """What there is to measure, by the figure's name."""
        return {name: getattr(self, f"_{name}") for name in ("pseudo", "contour", "latent")}

    def _pseudo(self) -> dict[str, Any]:
        classes, data = self.trial.classes, self.run.scenario
        forgotten = read(data.train, data.positions("train", classes)["forget_train"].tolist())
        found = pseudo.measure(self.original, self.retrained, forgotten, classes=classes, num_classes=data.num_classes)
        return self._about() | found

    def _contour(self) -> dict[str, Any]:
        data = self.run.scenario
        judged = read(data.test, data.positions("test", self.trial.classes, most=_LOSS_SAMPLES)["retain_test"].tolist())
        fitted = data.without(self.trial.classes)
        found = contour.measure(self.original, fitted, judged, num_classes=data.num_classes, progress=self.progress)
        return self._about() | found

    def _latent(self) -> dict[str, Any]:
        data = self.run.scenario
        size = len(data.labels("test"))
        some = torch.randperm(size, generator=torch.Generator().manual_seed(0))[:_LATENT_SAMPLES]
        unlearned = self.unlearned
        if unlearned.model is None:
            raise Diverged(f"{_METHOD} fell apart on {data.name}: {unlearned.diverged}; there is no network to show")
        samples = read(data.test, some.tolist())
        found = latent.measure(self.original, unlearned.model, self.retrained, samples, classes=self.trial.classes)
        return self._about() | {"settings": unlearned.settings} | found

    def _model(self, training: Training) -> nn.Module:
        self.run.train(training)
        return self.run.networks.load(training)[0]

    def _about(self) -> dict[str, Any]:
        trial = self.trial
        networks = {"original": trial.original.key, "retrained": trial.retrained.key}
        return {"data": self.run.config.data, "networks": networks, "versions": versions()}
