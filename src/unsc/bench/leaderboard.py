"""All methods over all data sets: the mean of their ranks, from the results of table 1 and from nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

from unsc.bench.outdated import outdated, said_of_versions
from unsc.bench.paper import data_sets
from unsc.bench.results import Result, read_results_to_rank, said_of_attacks
from unsc.compare.comparison import ORIGINAL, RETRAIN
from unsc.compare.grid import Grid
from unsc.compare.order import blocks
from unsc.compare.results import Summary
from unsc.compare.scenarios import parse_name
from unsc.storage.files import write_whole

_FORGOTTEN = 0.5
"""Percent of the forgotten test samples that may still be recognised."""


@dataclass(frozen=True)
class Standing:
    """A table 1: the results of one data set's preset, by method and trial."""

    name: str
    cells: dict[str, dict[int, Result]]

    @classmethod
    def of(cls, name: str, found: Sequence[Result]) -> Standing:
        cells: dict[str, dict[int, Result]] = {}
        for result in found:
            cells.setdefault(result.method, {})[result.trial] = result
        return cls(name, cells)

    @property
    def methods(self) -> list[str]:
        """Those that are ranked: all but the two that the others are measured by."""
        return [name for name in self.cells if name not in (ORIGINAL, RETRAIN)]

    def reached(self, method: str) -> bool:
        """Whether, on average over trials, it keeps the original's retained accuracy and forgets.

        What diverged in any trial has not: the mean of the others would be that of its lucky ones.
        """
        known = [pair for pair in self._beside(ORIGINAL, method) if all("retain_test_acc" in r.values for r in pair)]
        if not known or self._failed(method):
            return False
        kept = fmean(r.values["retain_test_acc"] - before.values["retain_test_acc"] for r, before in known)
        return round(kept, 6) >= 0 and fmean(r.values["forget_test_acc"] for r, _ in known) <= _FORGOTTEN

    def ranks(self, worse: Criterion) -> dict[str, float]:
        """Ranks from 1, the lowest mean of `worse` first.

        Equal ones share the mean of their ranks; what diverged in any trial or has no such value comes last.
        """
        retrained = self.cells.get(RETRAIN, {})

        def value(method: str) -> float:
            try:
                found = [worse(result, retrained.get(trial)) for trial, result in self.cells[method].items()]
                known = [x for x in found if x is not None]
                return round(fmean(known), 6) if known and not self._failed(method) else float("inf")
            except LookupError:
                return float("inf")

        values = {method: value(method) for method in self.methods}
        return {m: fmean(i for i, x in enumerate(sorted(values.values()), 1) if x == v) for m, v in values.items()}

    def _beside(self, reference: str, method: str) -> list[tuple[Result, Result]]:
        """The results of a method, each with that of the `reference` in the same trial."""
        known = self.cells.get(reference, {})
        return [(result, known[trial]) for trial, result in self.cells.get(method, {}).items() if trial in known]

    def _failed(self, method: str) -> bool:
        return any(result.diverged for result in self.cells[method].values())


Criterion: TypeAlias = Callable[[Result, Result | None], float | None]
"""A number for a result and that of the retrained network in the same trial, the lower the better; None if it is not
known. What the result itself should have and has not is a `LookupError`."""


def _distance(result: Result, _: Result | None) -> float:
    return fmean(result.values[name] for name in ("js_forget", "js_retain"))


def _attack(result: Result, retrained: Result | None) -> float | None:
    return None if retrained is None else abs(result.values["mia_confidence"] - retrained.values["mia_confidence"])


CRITERIA: dict[str, Criterion] = {
    "retained": lambda result, _: -result.values["retain_test_acc"],
    "forgotten": lambda result, _: result.values["forget_test_acc"],
    "like retraining": _distance,
    "attack": _attack,
    "cost": lambda result, _: result.cpu_seconds,
}
"""What methods are ranked by."""


@dataclass(frozen=True)
class Board:
    """The tables of one preset, each with the same methods, so that ranks mean the same in all of them."""

    preset: str
    tables: tuple[Standing, ...]

    @classmethod
    def of(cls, preset: str, found: Sequence[Result]) -> Board:
        """Of the methods that every data set of the preset has, in the paper's order of data sets.

        Data sets without the original are left out: nothing could be said of where its methods started.
        """
        by_data = [[r for r in found if parse_name(r.data)[0] == data] for data in data_sets()]
        of_data = [results for results in by_data if any(r.method == ORIGINAL for r in results)]
        common = set.intersection(*({result.method for result in results} for results in of_data)) if of_data else ()
        kept = [[result for result in results if result.method in common] for results in of_data]
        return cls(preset, tuple(Standing.of(results[0].data, results) for results in kept))


def boards(found: Sequence[Result]) -> list[Board]:
    """One for each preset that has a table 1, the one with most epochs first."""
    by_preset: dict[str, list[Result]] = {}
    for result in found:
        if result.table == "table1" and parse_name(result.data)[0] in data_sets():
            by_preset.setdefault(parse_name(result.data)[1] or "cpu", []).append(result)

    def epochs(preset: str) -> int:
        return max(result.content["protocol"]["epochs"] for result in by_preset[preset])

    made = (Board.of(preset, by_preset[preset]) for preset in sorted(by_preset, key=epochs, reverse=True))
    return [board for board in made if board.tables]


def write_leaderboard(results: Path) -> list[Path]:
    """Write `docs/leaderboard.md` beside the folder of results; nothing without such a folder or without a table 1."""
    docs, found = results.parent / "docs", boards(read_results_to_rank(results))
    if not docs.is_dir() or not found:
        return []
    path = docs / "leaderboard.md"
    text = page(found)
    write_whole(path, lambda p: p.write_text(text))
    return [path]


def page(found: Sequence[Board]) -> str:
    """A table of mean ranks for each preset, what it was made from, and how to read it."""
    return "\n\n".join([_HEADER, *map(_section, found)]) + "\n"


def _section(board: Board) -> str:
    every = [result for table in board.tables for cells in table.cells.values() for result in cells.values()]
    sources = [f"- {table.name}: {_source(table)}" for table in board.tables]
    remarks = f"{said_of_attacks(every)} {said_of_versions(every)}"
    return "\n\n".join([f"## Preset `{board.preset}`", _grid(board.tables).markdown(), "\n".join(sources), remarks])


def _grid(tables: Sequence[Standing]) -> Grid:
    ranks = {name: [table.ranks(worse) for table in tables] for name, worse in CRITERIA.items()}
    order = blocks(method for table in tables for method in table.methods)

    def overall(method: str) -> float:
        return fmean(of_table[method] for of in ranks.values() for of_table in of if method in of_table)

    def row(method: str) -> tuple[str, ...]:
        there = [table for table in tables if method in table.cells]
        reached = f"{sum(table.reached(method) for table in there)} of {len(there)}"
        cells = [Summary.of([x[method] for x in of if method in x]) for of in ranks.values()]
        old = any(outdated(r) for table in there for r in table.cells[method].values())
        return f"{method} ‡" if old else method, reached, f"{overall(method):.1f}", *(_places(cell) for cell in cells)

    rows = tuple(row(method) for method in sorted(order.methods, key=overall))
    controls = tuple((f"*control:* {first}", *rest) for first, *rest in map(row, sorted(order.controls, key=overall)))
    title = f"Mean rank ± standard deviation over {len(tables)} data sets"
    return Grid(title, ("method", "reached", "all", *CRITERIA), (rows, controls))


def _places(rank: Summary) -> str:
    return f"{rank.mean:.1f}" if rank.sd is None else f"{rank.mean:.1f} ± {rank.sd:.1f}"


def _source(table: Standing) -> str:
    content: Mapping = next(iter(table.cells[ORIGINAL].values())).content
    original = Summary.of([result.values["retain_test_acc"] for result in table.cells[ORIGINAL].values()])
    classes, network = len(content["classes"]), content["network"]
    return (
        f"{network['name']} at width {network['width']:g}, {content['protocol']['epochs']} epochs, "
        f"original {original} % on what is retained; {classes} class{'es' if classes > 1 else ''} forgotten, "
        f"{len(table.methods)} methods and controls, n = {len(table.cells[ORIGINAL])}"
    )


_HEADER = """# Leaderboard

Made by `unsc bench render` from the results of `unsc bench table1` in `results/`; the numbers behind the ranks are in
[the tables](../results/README.md). In each data set every method has a rank from 1, the best, by each of five numbers:
retained test accuracy; accuracy on forgotten test samples; the distance of its predictions to the retrained network's
(mean of the Jensen-Shannon distances on forgotten and on retained samples); how far the paper's membership attack is
from what it finds in the retrained network; and processor time. Equal numbers share a rank. *Reached*: on how many
data sets it keeps at least the original's retained accuracy and recognises at most 0.5 % of what was to be forgotten.
*All* is the mean of the five. What diverged in any trial comes last and has reached nothing. Each preset of
[the paper's experiments](paper.md) has a table of its own, with the methods that were run on all of its data sets. The
controls forget nothing: where one of them is ahead of a method, that number cannot tell forgetting from hiding
([evaluation](evaluation.md))."""
