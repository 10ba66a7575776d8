"""Results as files: one for each method and trial, with all that is needed to know how it came about."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from unsc.bench.data.shared.image_data import DATA
from unsc.bench.experiments import Experiment
from unsc.bench.presets import ASIDE
from unsc.compare.comparison import ORIGINAL, Comparison, read_result
from unsc.compare.plan import current_names
from unsc.compare.results import not_by_itself
from unsc.compare.scenarios import parse_name
from unsc.errors import InvalidData
from unsc.storage.files import write_json


@dataclass(frozen=True)
class Result:
    """One method in one trial of an experiment."""

    table: str
    data: str
    """The scenario: a data set, and after an @ the preset if it is not `cpu`."""
    method: str
    trial: int
    classes: tuple[int, ...]
    values: dict[str, float]
    """Metrics by name."""
    diverged: str | None
    cpu_seconds: float | None
    """Time that the method's threads were at work; None if it is not known."""
    content: dict[str, Any]
    """The file."""

    @property
    def config(self) -> dict[str, Any]:
        """The configuration of its comparison, with today's names."""
        return current_names(self.content["config"])

    @property
    def version(self) -> str:
        """The version of this package that measured it; "unknown" if the file does not say."""
        return self.content.get("versions", {}).get("unsc", "unknown")

    @property
    def attack_accuracy(self) -> float | None:
        """How well the paper's attack tells retained training from test samples, 0.5 to 1, if that is known."""
        return self._of_attack("attack_accuracy")

    @property
    def attack_error(self) -> float:
        """The standard error of that accuracy for an attack that knows nothing; infinite if there was none."""
        samples = (self._of_attack("members") or 0) + (self._of_attack("non_members") or 0)
        return 0.5 / samples**0.5 if samples else math.inf

    def _of_attack(self, name: str) -> float | None:
        measured = self.content["measured"]["values"].get("mia_confidence") or {}
        return (measured.get("detail") or {}).get(name)


def said_of_attacks(found: Iterable[Result]) -> str:
    """How well the attack does what it was trained for, in words; empty if that is not known."""
    known = [accuracy for result in found if (accuracy := result.attack_accuracy) is not None]
    if not known:
        return ""
    return (
        f"The attack tells retained training samples from test samples with an accuracy of {min(known):.2f} to "
        f"{max(known):.2f}, where 0.5 is chance."
    )


def keep(
    experiment: Experiment, comparison: Comparison, folder: Path, files: dict[str, Any] | None = None
) -> list[Path]:
    """Copy what a comparison has found into `folder`, with its configuration, hardware, training and `files`."""
    name, how = parse_name(experiment.config.data)
    trained = DATA.find(name).preset(how)
    about = {
        "table": experiment.table,
        "data": experiment.config.data,
        "preset": how or "cpu",
        **trained.about(),
        "config": asdict(experiment.config),
        "hardware": hardware(),
        "files": files,
    }
    written = []
    for trial in comparison.trials:
        for method in (ORIGINAL, *experiment.config.methods):
            source = comparison.result_path(trial, method)
            if source.exists():
                path = folder / experiment.config.data / experiment.name / f"trial-{trial.number}" / f"{method}.json"
                write_json(path, {**about, **_rounded(read_result(source))})
                written.append(path)
    return written


def read_results(folder: Path) -> Iterator[Result]:
    """All results that `keep` wrote, in the order of their paths."""
    for path in sorted(folder.glob("*/*/trial-*/*.json")):
        try:
            content = json.loads(path.read_text())
            content = not_by_itself(content, content["config"].get("shadows", 0))
            values = {name: v["value"] for name, v in content["measured"]["values"].items()}
            yield Result(
                content["table"],
                content["data"],
                content["method"],
                content["trial"],
                tuple(content["classes"]),
                values,
                content["diverged"],
                content["cost"].get("cpu_seconds"),
                content,
            )
        except (OSError, ValueError, LookupError, TypeError) as e:
            raise InvalidData(f"{path} is not a result ({e!r}); remove it, or run its experiment again") from e


def read_results_to_rank(folder: Path) -> list[Result]:
    """Those that verdicts and ranks are made from: without presets that stand `ASIDE`."""
    return [result for result in read_results(folder) if parse_name(result.data)[1] not in ASIDE]


def hardware() -> dict[str, Any]:
    """What this ran on."""
    cuda = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {"machine": platform.machine(), "cores": os.cpu_count(), "threads": torch.get_num_threads(), "cuda": cuda}


def _rounded(value: Any) -> Any:
    """Six digits are more than any of these numbers is worth, and keep files readable."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    return [_rounded(v) for v in value] if isinstance(value, list) else value
