"""How a run was made, and what its folder does not hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unsc.report.html import bullets, pairs
from unsc.report.request import RequestRun


def made(run: RequestRun) -> str:
    """Settings and versions; empty if the folder does not say."""
    items: list[tuple[str, str]] = [("folder", run.name)]
    if run.run is not None:
        m = run.run
        items.append(("stopped", m.note))
        items.append(("steps", f"{m.steps} in {m.passes:g} passes, {m.steps_taken_back} taken back"))
        items.append(("edited", str(m.edited)))
        items.append(("seconds", f"{m.seconds:.1f}"))
    config = dict(run.config or {})
    if run.receipt is not None:
        config |= {**run.receipt["config"]["values"], "versions": run.receipt["code"]["versions"]}
    for name in ("kind", "seed", "training", "options", "versions"):
        if config.get(name) not in (None, {}):
            items.append((name, _flat(config[name])))
    return pairs(items)


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_flat(one)}" for name, one in value.items() if one is not None)
    return str(value)


_USUAL = {
    "networks": "Networks side by side: the folder has no report-data.json, which `unsc forget` and `unsc demo` write.",
    "accuracy": "Accuracy by class: it was not kept in this folder.",
    "destinations": "Where forgotten samples went: it was not kept in this folder.",
    "membership": "Membership: the folder has no attack on forgotten samples.",
    "layers": "Rank, budget and drift by layer: the folder has no metrics of a run.",
    "course": "The course of the run: the folder has no steps of a run.",
    "latent": "The map of the features: it was not kept in this folder.",
}


def left_out(run: RequestRun, absent: list[str]) -> str:
    """A sentence for each part that the folder holds nothing for."""
    known = (run.seen or {}).get("missing", {})
    reasons = {"membership": known.get("membership"), "latent": known.get("map")}
    titles = {"membership": "Membership", "latent": "The map of the features"}
    said = [f"{titles[name]}: {why}" if (why := reasons.get(name)) else _USUAL[name] for name in absent]
    if run.networks and run.network("retrained") is None:
        said.append("A retrained network: none was made, so nothing here is held against retraining.")
    if run.networks and run.network("control") is None:
        said.append("Controls: none were made; `unsc compare` and `unsc demo` show what only looks like forgetting.")
    if run.run is not None and run.run.layers and not run.run.spent:
        said.append("Budget by layer and the cost of each step: this step rule predicts neither.")
    return bullets(said) if said else ""
