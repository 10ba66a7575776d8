"""A folder of one request: of `unsc forget`, with or without a store, of `unsc demo`, or of `Forgotten.save`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unsc.errors import InvalidData, listing
from unsc.evaluation.side_by_side import FILE, KIND, VERSION
from unsc.release.receipt import FILE as RECEIPT
from unsc.release.stage import REPORT
from unsc.result import RunMetrics
from unsc.storage.files import read_json

METRICS, CONFIG = "metrics.json", "config.json"


@dataclass(frozen=True)
class RequestRun:
    """What is there of a request; whatever its folder does not hold is None."""

    folder: Path
    seen: Mapping[str, Any] | None
    """Networks side by side (`evaluation.side_by_side`)."""
    run: RunMetrics | None
    config: Mapping[str, Any] | None
    judged: Mapping[str, Any] | None
    """Figures and verdicts of the gate."""
    receipt: Mapping[str, Any] | None

    @property
    def name(self) -> str:
        return self.folder.name or str(self.folder.resolve())

    @property
    def kind(self) -> str:
        """`classes` or `records`."""
        if self.run is not None:
            return self.run.request
        return str(self._asked.get("kind", "classes"))

    @property
    def what(self) -> str:
        """What was asked to be forgotten, in words."""
        names, samples = self._asked.get("classes") or (), self._asked.get("samples")
        if names:
            return ("class " if len(names) == 1 else "classes ") + listing(names)
        if samples is None:
            return "what was asked for"
        return f"{samples} {'record' if self.kind == 'records' else 'sample'}{'' if samples == 1 else 's'}"

    @property
    def _asked(self) -> Mapping[str, Any]:
        """`kind`, names of `classes` and the number of `samples`, as far as any file says them."""
        if self.seen is not None:
            names = [self.seen["class_names"][k] for k in self.seen["forgotten"]]
            return {"kind": self.seen["request"], "classes": names, "samples": self.seen["samples"]}
        if self.receipt is not None:
            return self.receipt["request"]
        if self.judged is not None:
            return self.judged.get("request", self.judged)
        config = self.config or {}
        records = config.get("indices")
        return {"classes": config.get("classes"), "samples": None if records is None else len(records)}

    @property
    def networks(self) -> list[Mapping[str, Any]]:
        """Those that stand side by side; empty if the folder does not hold them."""
        return [] if self.seen is None else list(self.seen["networks"])

    def network(self, role: str) -> Mapping[str, Any] | None:
        """The first of a role."""
        return next((one for one in self.networks if one["role"] == role), None)


def accuracy(network: Mapping[str, Any], classes: set[int], *, inside: bool) -> float | None:
    """Percent of samples that are classified right, of these classes or of all others; None if there are none."""
    own = [one for one in network["classes"] if (one["class"] in classes) == inside]
    samples = sum(one["samples"] for one in own)
    return 100 * sum(one["hits"] for one in own) / samples if samples else None


def is_request(folder: Path) -> bool:
    """Whether a folder holds the files of a request."""
    return any((folder / name).exists() for name in (FILE, RECEIPT, REPORT, METRICS))


def read_request_run(folder: Path) -> RequestRun:
    """What is there of a request."""
    seen = _json(folder / FILE)
    if seen is not None and (seen.get("kind"), seen.get("version")) != (KIND, VERSION):
        raise InvalidData(
            f"{folder / FILE} is {seen.get('kind')!r} of version {seen.get('version')!r}, not {KIND!r} of version "
            f"{VERSION}; carry the request out again, or remove the file"
        )
    metrics = _json(folder / METRICS)
    told = seen["run"] if seen is not None else metrics if metrics and "promise" in metrics else None
    run = None if told is None else RunMetrics.from_dict(told)
    return RequestRun(folder, seen, run, _json(folder / CONFIG), _json(folder / REPORT), _json(folder / RECEIPT))


def _json(path: Path) -> dict[str, Any] | None:
    return read_json(path) if path.exists() else None
