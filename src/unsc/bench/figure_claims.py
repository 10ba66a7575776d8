"""What the paper's figures show beside what was measured here, with a verdict by a rule, into `docs/paper.md`.

The toy example is a picture to look at and stays in words. Of the others each data set has the preset with most epochs
whose numbers are there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from unsc.bench.claims import FORGOTTEN, RETAINED
from unsc.bench.claims import claims as rows_of_tables
from unsc.bench.data.shared.image_data import DATA
from unsc.bench.marked import renewed
from unsc.bench.paper import data_sets
from unsc.bench.presets import ASIDE
from unsc.bench.results import Result, read_results_to_rank
from unsc.bench.scenarios import full_name
from unsc.compare.comparison import ORIGINAL, RETRAIN
from unsc.compare.grid import Grid
from unsc.compare.results import Summary

ALIKE, PARTLY_ALIKE = 0.1, 0.2
"""Share of the samples that would have to change their label for two distributions of labels to be the same."""
STEEP = 10.0
"""How many times as much the loss rises outside the null space as within, where the one is steep and the other flat."""
DISPERSED, PARTLY_DISPERSED = 0.5, 0.2
"""How far the share of neighbours of the own class goes from the original's to the retrained network's."""
CERTAIN = 3.0
"""Standard errors by which an attack must be better than chance at telling what it was trained to tell."""
NEAR = 0.05
"""By which an attack may find another share of the samples never seen than in the retrained network."""

_HEAD = ("figure", "what the paper shows", "here", "verdict")
_NOT_RUN = "not testable here: not run"
PAPER_STEP = "unsc_paper"
_ATTACKED = (ORIGINAL, RETRAIN, PAPER_STEP)
_METRIC = "mia_confidence"
"""The paper's attack."""


class Line(NamedTuple):
    """A figure for one data set."""

    figure: str
    shown: str
    here: str
    verdict: str


def write_figure_claims(results: Path) -> list[Path]:
    """Put the table between `<!-- figures -->` and `<!-- end figures -->` of `docs/paper.md`, if there is that page."""
    page = results.parent / "docs" / "paper.md"
    return renewed(page, {"figures": lambda: Grid("", _HEAD, (tuple(lines(results)),)).markdown()})


def lines(results: Path) -> Iterator[Line]:
    """All figures of the paper's experiments."""
    found = read_results_to_rank(results)
    for name, (shown, said) in _MEASURED.items():
        for data in data_sets():
            kept = _kept(results, data, name)
            here, verdict = ("", _NOT_RUN) if kept is None else said(kept[1])
            yield Line(f"{_WORDS[name]}, {kept[0] if kept else data}", shown, here, verdict)
    yield from _membership(found)
    yield from _by_class(found)


def pseudo_labels(content: Mapping[str, Any]) -> tuple[str, str]:
    """Two distributions of labels: half the sum of their differences is what would have to change."""
    ours, theirs = content["pseudo_labels"], content["retrained"]
    apart = sum(abs(a - b) for a, b in zip(ours, theirs, strict=True)) / 2
    here = f"{apart:.1%} of the labels would have to change; same label for {content['agreement']:.1%} of the samples"
    return here, _graded(-apart, -ALIKE, -PARTLY_ALIKE)


def loss_contour(content: Mapping[str, Any]) -> tuple[str, str]:
    """The two lines through the original, to a change as large as the weights on either side."""
    loss, middle = content["loss"], len(content["loss"]) // 2
    base, within = loss[middle][middle], max(loss[middle][0], loss[middle][-1])
    outside = min(loss[0][middle], loss[-1][middle])
    here = f"loss from {base:.2f} to at most {within:.2f} within, to at least {outside:.1f} outside"
    return here, _graded((outside - base) / max(within - base, 1e-9), STEEP, STEEP)


def latent_space(content: Mapping[str, Any]) -> tuple[str, str]:
    """Neighbours of the own class, of 15 in the last layer's inputs."""
    before, ours, theirs = (content["neighbours"][name] for name in ("original", "unlearned", "retrained"))
    here = (
        f"neighbours of a forgotten sample that are of its class: {before['forgotten']:.0%} before, "
        f"{ours['forgotten']:.0%} after our step, {theirs['forgotten']:.0%} in the retrained network; of a retained "
        f"one {before['retained']:.0%}, {ours['retained']:.0%} and {theirs['retained']:.0%}"
    )
    way = before["forgotten"] - theirs["forgotten"]
    if way <= 0:
        return here, "not testable here: the retrained network's cluster is no more dispersed"
    return here, _graded((before["forgotten"] - ours["forgotten"]) / way, DISPERSED, PARTLY_DISPERSED)


Said: TypeAlias = Callable[[Mapping[str, Any]], tuple[str, str]]
_MEASURED: dict[str, tuple[str, Said]] = {
    "pseudo": ("pseudo-labels are distributed as the retrained network's predictions", pseudo_labels),
    "contour": ("the loss is flat within the null space, steep outside of it", loss_contour),
    "latent": ("the forgotten cluster disperses, the others stay", latent_space),
}

_WORDS = {"pseudo": "pseudo-labels", "contour": "loss contour", "latent": "latent space"}


def _membership(found: Sequence[Result]) -> Iterator[Line]:
    """The attack's finding for the paper's step beside retraining, if the attack knows members of the original."""
    for data in data_sets():
        name, attacked = _attacked(found, data)
        said = (f"membership, {name}", "1.0 for retraining, its method close to it")
        if not attacked or not all(attacked.values()):
            yield Line(*said, "", _NOT_RUN)
            continue
        before, theirs, ours = (_mean(part, _METRIC) for part in attacked.values())
        originals = attacked[ORIGINAL]
        attack = Summary.of([r.attack_accuracy or 0.5 for r in originals]).mean
        here = (
            f"{before:.2f} for the original, {theirs:.2f} for retraining, {ours:.2f} for the paper's step; "
            f"the attack's own accuracy on the original is {attack:.3f}"
        )
        known = attack >= 0.5 + CERTAIN * min(r.attack_error for r in originals) and before <= 0.5 <= theirs
        read = "reproduced" if abs(ours - theirs) <= NEAR else "not reproduced"
        yield Line(*said, here, read if known else "not testable here: the attack cannot be read")


def _by_class(found: Sequence[Result]) -> Iterator[Line]:
    """The paper's step for each number of classes, and what it does to the class that stays and fares worst."""
    for claim in rows_of_tables(found):
        if claim.table == "ablation" or not claim.row.endswith(PAPER_STEP):
            continue
        count = claim.row.partition(",")[0] if "," in claim.row else str(DATA.find(claim.data).at_once)
        full = claim.found[0].data if claim.found else claim.data
        said = (f"accuracy by class, {full}, {count}", "forgotten near 0, the others as before or better")
        if not claim.found:
            yield Line(*said, "", _NOT_RUN)
            continue
        forgotten, gain = _mean(claim.found, "forget_test_acc"), claim.gain.mean
        before, after = _classes(claim.originals), _classes(claim.found)
        worst = min(after, key=lambda name: after[name] - before[name])
        lost = after[worst] - before[worst]
        here = f"forgotten {forgotten:.1f} %, retained {gain:+.1f} points; class {worst} fares worst: {lost:+.1f}"
        kept = gain >= -RETAINED and forgotten <= FORGOTTEN
        verdict = claim.verdict() if claim.verdict().startswith("not testable") else _graded(kept, True, True)
        yield Line(*said, here, verdict)


def _classes(found: Sequence[Result]) -> dict[str, float]:
    """Test accuracy of each class that stays, over the trials."""
    details = [result.content["measured"]["values"]["retain_test_acc"]["detail"] for result in found]
    return {name: Summary.of([detail[name] for detail in details]).mean for name in details[0]}


def _kept(results: Path, data: str, name: str) -> tuple[str, Mapping[str, Any]] | None:
    """The numbers of a figure, of the preset with most epochs that has them."""
    for full in _by_epochs(data):
        path = results / full / "figures" / f"{name}.json"
        if path.exists():
            return full, json.loads(path.read_text())
    return None


def _by_epochs(data: str) -> list[str]:
    """The scenarios of a data set that verdicts are by, those with most epochs first."""
    presets = DATA.find(data).presets
    ranked = sorted(presets.keys() - ASIDE, key=lambda name: -presets[name].protocol.epochs)
    return [full_name(data, name) for name in ranked]


def _attacked(found: Sequence[Result], data: str) -> tuple[str, dict[str, list[Result]]]:
    """Table 1's results with the attack's finding, by method, of the preset with most epochs that has the paper's step.

    Original, retrained network and step are of the same requests, trial by trial.
    """
    for full in _by_epochs(data):
        attacked = [r for r in found if (r.data, r.table) == (full, "table1") and _METRIC in r.values]
        by_method = {m: {(r.trial, r.classes): r for r in attacked if r.method == m} for m in _ATTACKED}
        if by_method[PAPER_STEP]:
            shared = set.intersection(*(set(own) for own in by_method.values()))
            return full, {m: [own[request] for request in sorted(shared)] for m, own in by_method.items()}
    return data, {}


def _mean(found: Sequence[Result], metric: str) -> float:
    return Summary.of([result.values[metric] for result in found]).mean


def _graded(value: float, whole: float, part: float) -> str:
    return "reproduced" if value >= whole else "reproduced in part" if value >= part else "not reproduced"
