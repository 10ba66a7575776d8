"""Compare methods: plan, work in several processes, and resume what was stopped."""

from __future__ import annotations

import json
import os
import shutil
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch

from unsc.cluster import ClusterWorkers
from unsc.compare.comparison import ORIGINAL, RETRAIN, Comparison
from unsc.compare.judging import Judge
from unsc.compare.order import controls_for
from unsc.compare.plan import Config, Training, Trial, current_names
from unsc.errors import InvalidRequest, UnscError, listing, unknown
from unsc.evaluation.shared.metrics import metrics
from unsc.methods import find, methods, split_names
from unsc.progress import Progress, quiet
from unsc.storage.files import write_json
from unsc.storage.versions import versions
from unsc.workers import Workers

_PARTS = (
    "models",
    "tuned",
    "results",
    "report.md",
    "scorecard.png",
    "results.json",
    "results.csv",
    "config.json",
    "report.html",
)
"""All that a comparison writes into its folder."""
_FORMER: dict[str, Any] = {"request": "classes", "records": None, "later": 1}
"""What a configuration means that was written before it had these."""
_ELSEWHERE = "name another folder with --out, or replace it with --overwrite"


@dataclass(frozen=True)
class Finished:
    """A comparison as far as it came."""

    comparison: Comparison
    """With all methods and trials that its folder holds, those of earlier calls included."""
    failed: dict[str, str]
    """Pieces of work that could not be done, with the reason."""
    seconds: float
    measured: int = 0
    """How many results were missing and had to be measured; 0 if the comparison was finished before."""

    @property
    def run(self) -> Comparison:
        """The old name of `comparison`."""
        warnings.warn("Finished.run is now Finished.comparison", DeprecationWarning, stacklevel=2)
        return self.comparison


def compare(
    config: Config,
    folder: Path,
    *,
    models: Path | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    overwrite: bool = False,
    progress: Progress = quiet,
    done: Done = lambda piece, message: None,
) -> Finished:
    """Carry out a comparison in `folder`, or resume the one that is there, unless it is to `overwrite` it.

    Trained networks are kept in `models`, which other comparisons may share. The work is done by `jobs` processes of
    this machine, or of the Ray `cluster` at an address, whose machines share these folders. `done` is called after each
    piece of work.
    """
    began = time.perf_counter()
    comparison = Comparison(folder, config, models)
    _check(comparison, jobs)
    whole = config if overwrite and _remove(folder) else _whole(comparison)
    about = {"config": asdict(whole), "trained": dict(comparison.scenario.about), "versions": versions()}
    write_json(folder / "config.json", {"kind": "comparison", **about})
    cells = [(trial, name) for trial in comparison.trials for name in (ORIGINAL, *config.methods)]
    left = [(trial, name) for trial, name in cells if not comparison.result_path(trial, name).exists()]
    failed: dict[str, str] = {}
    if left:
        networks = [x for x in comparison.trainings() if not comparison.networks.path(x).exists()]
        tuned = [name for name in config.methods if any(name == method for _, method in left)]
        with _workers(folder, config, models, jobs, cluster) as workers:
            failed |= _work(workers, "training networks", [Piece("train", (x,)) for x in networks], progress, done)
            failed |= _work(workers, "tuning", [Piece("tune", (name,)) for name in tuned], progress, done)
            failed |= _work(workers, "comparing", [Piece("judge", cell) for cell in left], progress, done)
    return Finished(Comparison(folder, whole, models), failed, time.perf_counter() - began, len(left))


def _workers(
    folder: Path, config: Config, models: Path | None, jobs: int | None, cluster: str | None
) -> Workers[Piece, str | None] | ClusterWorkers[Piece, str | None]:
    """Those that do the work, by processes of this machine unless a cluster is named."""
    if cluster is None:
        return Workers(partial(_do, folder, config, models), jobs or os.cpu_count() or 1)
    places = folder.resolve(), config, None if models is None else models.resolve()  # other processes work elsewhere
    return ClusterWorkers(partial(_do, *places), jobs, address=cluster)


@dataclass(frozen=True)
class Piece:
    """A piece of work for one process."""

    kind: Literal["train", "tune", "judge"]
    what: tuple[Training | Trial | str, ...]
    """A network to train, a method to tune, or a trial and the method to judge on it."""

    def __str__(self) -> str:
        return " ".join([self.kind, *map(_name, self.what)])


Done: TypeAlias = Callable[[Piece, str | None], None]
"""Told of a piece of work that is done, with a message if it failed."""


def _name(what: Training | Trial | str) -> str:
    if isinstance(what, Training):
        return what.key
    return f"trial {what.number}" if isinstance(what, Trial) else what


def chosen_methods(text: str, request: str = "classes") -> tuple[str, ...]:
    """`all`, or names separated by commas; the controls and retraining are always among them, to compare with.

    `all` are those that can carry out a request of this kind; for records, fine-tuning is one of the controls.
    """
    known = {name: method for name, method in methods().items() if request in method.kinds}
    named = list(known) if text == "all" else [find(name).name for name in split_names(text)]
    controls = controls_for(request)
    return tuple(dict.fromkeys([RETRAIN, *(name for name in named if name not in controls), *controls]))


def _check(comparison: Comparison, jobs: int | None) -> None:
    """Refuse what could not be carried out, before anything is written."""
    _ = comparison.trials  # reads the scenario, whose module may register methods
    for name in comparison.config.methods:
        if (kind := comparison.config.request) not in find(name).kinds:
            raise InvalidRequest(f"{name} forgets {listing(find(name).kinds)} only, not {kind}; leave it out")
    known = metrics()
    for name in comparison.config.metrics or ():
        if name not in known:
            raise unknown("metric", name, known)
        if not comparison.config.shadows and (lacking := {"twin", "references", "shadows"} & {*known[name].needs}):
            raise InvalidRequest(f"the metric {name} needs {listing(sorted(lacking))}; give --shadows 2 or more")
    if jobs is not None and jobs < 1:
        raise InvalidRequest(f"jobs={jobs}; it must be at least 1")
    if comparison.folder.exists() and not comparison.folder.is_dir():
        raise InvalidRequest(f"{comparison.folder} is not a folder; name another with --out")


def _remove(folder: Path) -> bool:
    """Remove the comparison in a folder, and nothing else that may be there; false if there is none."""
    try:
        ours = "methods" in json.loads((folder / "config.json").read_text())["config"]
    except (OSError, ValueError, LookupError, TypeError):
        return False
    for path in (folder / name for name in _PARTS if ours):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return ours


def _whole(comparison: Comparison) -> Config:
    """The configuration with the methods and trials that the folder has already; it must hold the same comparison."""
    folder, config = comparison.folder, comparison.config
    path = folder / "config.json"
    if path.exists():
        try:
            content = json.loads(path.read_text())
            former = _FORMER | current_names(content["config"])
            same = json.loads(json.dumps(config.fixed()))
            other = {k: former.get(k) for k in same if former.get(k) != same[k]}
            now = json.loads(json.dumps(dict(comparison.scenario.about)))
            trained = content.get("trained", now)  # files up to 0.2.0 do not say
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as e:
            raise InvalidRequest(f"{path} is not a comparison's ({e}); name another folder with --out") from e
        if other:
            found = ", ".join(f"{k} is {v!r} there and {same[k]!r} here" for k, v in other.items())
            raise InvalidRequest(f"{folder} holds another comparison: {found}; {_ELSEWHERE}")
        if trained != now:
            how = f"{trained}, and {config.data} is now {now}"
            raise InvalidRequest(f"{folder} holds results of networks that were trained by {how}; {_ELSEWHERE}")
        both = dict.fromkeys([*former["methods"], *config.methods])
        config = replace(config, methods=tuple(both), trials=max(former["trials"], config.trials))
    elif folder.exists() and any(folder.iterdir()):
        raise InvalidRequest(f"{folder} holds something else; name another folder with --out")
    return config


def _work(
    workers: Workers[Piece, str | None] | ClusterWorkers[Piece, str | None],
    title: str,
    pieces: list[Piece],
    progress: Progress,
    done: Done,
) -> dict[str, str]:
    """Do all pieces, and give those that failed with the reason."""
    failed: dict[str, str] = {}
    if not pieces:
        return failed
    with progress(title, len(pieces)) as advance:
        for piece, message in workers.results(pieces):
            if message is not None:
                failed[str(piece)] = message
            advance()
            done(piece, message)
    return failed


@cache
def _open(folder: Path, config: Config, models: Path | None) -> Judge:
    """One for each process, which reads its data once."""
    torch.set_num_threads(1)  # small networks gain nothing from more, and processes would fight over them
    comparison = Comparison(folder, config, models)
    _ = comparison.scenario  # its module may register methods
    return Judge(comparison)


def _do(folder: Path, config: Config, models: Path | None, piece: Piece) -> str | None:
    """Do a piece of work. Whatever goes wrong is a message: one method's fault does not end the others' work."""
    try:
        judge = _open(folder, config, models)
        work = {"train": judge.comparison.train, "tune": judge.comparison.tune, "judge": judge.judge}
        work[piece.kind](*piece.what)
    except UnscError as e:
        return str(e)
    except Exception:
        return traceback.format_exc()
    return None
