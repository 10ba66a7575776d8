"""Judge methods: each result is one file, written whole, and not computed again if that file is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import nn

from unsc.compare.comparison import RETRAIN, Comparison
from unsc.compare.plan import Trial
from unsc.compare.scenarios import Asked
from unsc.errors import Diverged
from unsc.evaluation.shared.case import Case, Later, References, Shadows
from unsc.evaluation.shared.metrics import Measured, measure, metrics
from unsc.methods import Applied
from unsc.storage.files import write_json
from unsc.storage.versions import versions


@dataclass(frozen=True)
class Judge:
    """Measures what the methods of a comparison make of its trials."""

    comparison: Comparison
    _yardsticks: dict[int, Case] = field(default_factory=dict, repr=False, compare=False)

    def judge(self, trial: Trial, method: str) -> None:
        """Let a method forget, and measure what came of it. That a method diverged is a result as well."""
        path = self.comparison.result_path(trial, method)
        if path.exists():
            return
        yardstick = self._yardstick(trial)
        original = yardstick.model
        if method == RETRAIN:
            network, cost = self.comparison.networks.load(trial.twin or trial.retrained)
            # Without a twin it is the very model that others are compared with, and its distance to that is not known.
            applied = Applied(network if trial.twin else yardstick.needed("retrained"), {}, cost, None)
        else:
            applied = self.comparison.apply(method, original, yardstick.request, seed=trial.original.seed)
        content: dict[str, Any] = {
            "trial": trial.number,
            "method": method,
            "classes": trial.classes,
            "later": trial.later,
            **({"records": len(trial.records)} if trial.records else {}),
            "seed": trial.original.seed,
            "settings": applied.settings,
            "noted": applied.noted,
            "cost": asdict(applied.cost),
            "diverged": applied.diverged,
            "measured": Measured({}, {}).to_dict(),
            "versions": versions(),
        }
        if applied.model is not None:
            case = self._case(trial, method, applied, applied.model)
            content["measured"] = self._measure(case).to_dict()
            case.keep_logits(case.original, case.retrained, *(case.references.models if case.references else ()))
        write_json(path, content)

    def _measure(self, case: Case) -> Measured:
        """What was asked for, except what needs shadows if the method diverged on one of them."""
        asked, known = self.comparison.config.metrics, metrics()
        lost = [] if case.shadows is not None else [n for n in asked or () if "shadows" in known[n].needs]
        found = measure(case, asked and [n for n in asked if n not in lost])
        return replace(found, skipped=found.skipped | dict.fromkeys(lost, "it diverged on a shadow model"))

    def _yardstick(self, trial: Trial) -> Case:
        """The case of a trial's original. Those of its methods share its parts, its networks and their logits."""
        if trial.number not in self._yardsticks:
            self._yardsticks.clear()  # results come trial by trial
            here = self.comparison
            original, _ = here.networks.load(trial.original)
            retrained, cost = here.networks.load(trial.retrained) if here.retrains else (None, None)
            request = trial.request(here.scenario.num_classes)
            self._yardsticks[trial.number] = Case(
                original,
                request,
                here.scenario.parts(request, most=here.config.judge_samples),
                original=original,
                retrained=retrained,
                references=self._references(trial) if trial.references and here.wants("references") else None,
                retrained_cost=cost,
                seed=trial.original.seed,
            )
        return self._yardsticks[trial.number]

    def _case(self, trial: Trial, method: str, applied: Applied, model: nn.Module) -> Case:
        here = self.comparison
        twin = None
        if trial.twin is not None and here.retrains:
            twin = model if method == RETRAIN else here.networks.load(trial.twin)[0]
        return replace(
            self._yardstick(trial),
            model=model,
            twin=twin,
            shadows=self._shadows(trial, method) if trial.shadow_originals and here.wants("shadows") else None,
            later=self._later(trial, method) if trial.later else None,
            cost=applied.cost,
        )

    def _later(self, trial: Trial, method: str) -> Later:
        def run(model: nn.Module) -> nn.Module:
            gone = trial.classes
            for k in trial.later:
                model = self._forgotten(method, model, (k,), seed=trial.original.seed, gone=gone)
                gone = (*gone, k)
            return model

        return Later(trial.later, run)

    def _forgotten(
        self, method: str, model: nn.Module, asked: Asked, *, seed: int, gone: Sequence[int] = ()
    ) -> nn.Module:
        applied = self.comparison.apply(method, model, asked, seed=seed, gone=gone)
        if applied.model is None:
            raise Diverged(f"{method} diverged on another network or request: {applied.diverged}")
        return applied.model

    def _shadows(self, trial: Trial, method: str) -> Shadows | None:
        networks, request = self.comparison.networks, trial.request(self.comparison.scenario.num_classes)
        try:
            unlearned = tuple(
                self._forgotten(method, networks.load(shadow)[0], request, seed=shadow.seed)
                for shadow in trial.shadow_originals
            )
        except Diverged:
            return None
        return Shadows(unlearned, tuple(networks.load(shadow)[0] for shadow in trial.shadow_retrained))

    def _references(self, trial: Trial) -> References:
        here = self.comparison
        size = len(here.scenario.labels("train"))
        saw = torch.stack([reference.chosen(size) for reference in trial.references])
        models = tuple(here.networks.load(reference)[0] for reference in trial.references)
        request = trial.request(here.scenario.num_classes)
        judged = here.scenario.positions("train", request, most=here.config.judge_samples)
        return References(models, {part: saw[:, chosen] for part, chosen in judged.items()})
