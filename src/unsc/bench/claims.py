"""Every row of the paper's tables beside what was measured here, with a verdict by a rule, into `docs/paper.md`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from unsc.bench.experiments import ABLATION
from unsc.bench.marked import renewed
from unsc.bench.outdated import outdated
from unsc.bench.paper import Reported, data_sets, keys, row
from unsc.bench.results import Result, read_results_to_rank
from unsc.compare.comparison import ORIGINAL
from unsc.compare.grid import Grid
from unsc.compare.results import Summary
from unsc.compare.scenarios import parse_name

RETAINED, FORGOTTEN = 1.0, 2.0
"""Points by which the gain in retained accuracy, and the accuracy on what is forgotten, may differ from the paper's."""
LEVEL = 5.0
"""Points by which an original may be below or above the paper's, for what was made of it to be compared."""
_WORDS = {"table1": "all methods", "ablation": "ablation", "multiclass": "several classes"}
_HEAD = ("row", "paper: retain (gain) / forget", "here: retain (gain) / forget", "here", "verdict")


@dataclass(frozen=True)
class Claim:
    """A row of a table of the paper, and the results that stand beside it."""

    table: str
    data: str
    row: str
    paper: Reported
    paper_original: Reported
    found: Sequence[Result]
    originals: Sequence[Result]
    """Of the same trials."""

    @property
    def original(self) -> bool:
        """Whether it is the row of the network that has not forgotten anything."""
        return self.paper is self.paper_original

    @property
    def paper_gain(self) -> float:
        return self.paper.retain[0] - self.paper_original.retain[0]

    @property
    def gain(self) -> Summary:
        """Points of retained accuracy above each trial's original."""
        before = {(r.trial, r.classes): r.values["retain_test_acc"] for r in self.originals}
        return Summary.of([r.values["retain_test_acc"] - before[r.trial, r.classes] for r in self.found])

    def verdict(self) -> str:
        """By the rule: the gain and what is still recognised are the paper's; of the original, the level."""
        if not self.found:
            return "not testable here: not run"
        level = _mean(self.originals, "retain_test_acc").mean - self.paper_original.retain[0]
        if self.original:
            return _said([_words(level, RETAINED, "a higher level", "a lower level")])
        if abs(level) > LEVEL:
            return f"not testable here: the original is at {level:+.1f} points"
        kept = self.gain.mean - self.paper_gain
        forgotten = _mean(self.found, "forget_test_acc").mean - self.paper.forget[0]
        return _said(
            [
                _words(kept, RETAINED, "keeps more", "keeps less"),
                _words(forgotten, FORGOTTEN, "forgets less", "forgets more"),
            ]
        )

    def cells(self) -> tuple[str, ...]:
        gain = "" if self.original else f" ({self.paper_gain:+.2f})"
        theirs = f"{self.paper.retain[0]:.2f}{gain} / {self.paper.forget[0]:.2f}"
        return f"{self.data}, {_WORDS[self.table]}: {self.row}", theirs, *self._here(), self.verdict()

    def _here(self) -> tuple[str, str]:
        if not self.found:
            return "", ""
        gain = "" if self.original else f" ({self.gain.mean:+.2f})"
        retain, forget = _mean(self.found, "retain_test_acc"), _mean(self.found, "forget_test_acc")
        first = self.found[0]
        about = [f"n = {len(self.found)}"]
        if (preset := parse_name(first.data)[1]) is not None:
            about.insert(0, f"`{preset}`")
        if (passes := first.content["settings"].get("max_passes")) is not None:
            most = first.config.get("forget_samples")
            about.append(f"{passes} passes over {f'{most:,}' if most else 'all'} samples")
        if any(map(outdated, self.found)):
            about.append(f"version {first.version}")
        return f"{retain}{gain} / {forget}", ", ".join(about)


def claims(found: Sequence[Result]) -> Iterator[Claim]:
    """All rows of the paper's tables, but for those that it prints twice."""
    for data in data_sets():
        of_data = [result for result in found if parse_name(result.data)[0] == data]
        for method in keys("table1", data):
            yield _claim("table1", data, (method,), method, of_data, _results(of_data, "table1", method))
        for number in ("III", "IV"):  # I, II and V are rows of the other table
            own = [r for name in ABLATION[number].names for r in _results(of_data, "ablation", name)]
            yield _claim("ablation", data, (number,), f"{number}, {ABLATION[number].about}", of_data, own)
        first = keys("multiclass", data)[0]
        for count in keys("multiclass", data):
            for method in keys("multiclass", data, count):
                own = [r for r in _results(of_data, "multiclass", method) if len(r.classes) == int(count)]
                if count != first:
                    yield _claim("multiclass", data, (count, method), f"{count}, {method}", of_data, own)


def write_claims(results: Path) -> list[Path]:
    """Put the table between `<!-- claims -->` and `<!-- end claims -->` of `docs/paper.md`, if there is such a page."""
    page = results.parent / "docs" / "paper.md"
    return renewed(page, {"claims": lambda: table(list(claims(read_results_to_rank(results))))})


def table(made: Sequence[Claim]) -> str:
    """The rows, and how many have which verdict."""
    verdicts = [claim.verdict().partition(":")[0] for claim in made]
    counts = ", ".join(f"{verdicts.count(x)} {x}" for x in ("reproduced", "not reproduced", "not testable here"))
    grid = Grid("", _HEAD, (tuple(claim.cells() for claim in made),)).markdown()
    return f"{len(made)} rows: {counts}.\n\n{grid}"


def _claim(
    table: str, data: str, where: tuple[str, ...], words: str, of_data: Sequence[Result], own: Sequence[Result]
) -> Claim:
    original = row(table, data, *where[:-1], "I" if table == "ablation" else ORIGINAL)
    paper = original if where[-1] == ORIGINAL else row(table, data, *where)
    originals = {_request(result): result for result in _of(of_data, ORIGINAL)}
    own = _longest([result for result in own if _request(result) in originals])  # a gain is above an original
    return Claim(table, data, words, paper, original, own, [originals[_request(result)] for result in own])


def _request(result: Result) -> tuple[str, str, tuple[int, ...], int]:
    """What a result shares with that of its original, and with no other original's.

    Several classes have one original, whether networks were retrained without them or not.
    """
    table = "multiclass" if result.table == "several" else result.table
    return table, result.data, result.classes, result.trial


def _results(found: Sequence[Result], table: str, method: str) -> list[Result]:
    """The results of a row. The paper's method has its own settings in the ablation, and is looked for there first."""
    if table == "multiclass":
        return [result for result in _of(found, method) if result.table in ("multiclass", "several")]
    if method == "unsc_paper":
        by_text = [r for name in ABLATION["V"].names for r in _of(found, name) if r.table == "ablation"]
        longest = {result.data for result in _longest(by_text + _of(found, method))}
        if text := [result for result in by_text if result.data in longest]:
            return text
    own = [result for result in _of(found, method) if result.table == table]
    if table == "table1":  # the same request, of a preset whose network has not been retrained
        places = {result.data for result in own}
        least = min((len(result.classes) for result in found if result.table == "several"), default=0)
        same = [r for r in _of(found, method) if r.table == "several" and len(r.classes) == least]
        own += [result for result in same if result.data not in places]
    return own


def _mean(found: Sequence[Result], metric: str) -> Summary:
    return Summary.of([result.values[metric] for result in found])


def _of(found: Sequence[Result], method: str) -> list[Result]:
    return [result for result in found if result.method == method and "retain_test_acc" in result.values]


def _longest(found: Sequence[Result]) -> list[Result]:
    """Those of the preset that was trained for most epochs."""
    epochs = {result.data: result.content["protocol"]["epochs"] for result in found}
    return [result for result in found if result.data == max(epochs, key=lambda data: epochs[data])]


def _words(difference: float, most: float, more: str, less: str) -> str:
    return more if difference > most else less if difference < -most else ""


def _said(differences: Sequence[str]) -> str:
    found = [words for words in differences if words]
    return f"not reproduced: {', '.join(found)}" if found else "reproduced"
