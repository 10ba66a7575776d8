"""Compare methods: plan, work in several processes, and resume what was stopped."""

from __future__ import annotations

import json
import os
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Literal

import torch

from unsc.compare.comparison import ORIGINAL, RETRAIN, Comparison
from unsc.compare.judging import Judge
from unsc.compare.plan import Config, Training, Trial, current_names
from unsc.errors import InvalidRequest, UnscError, listing, unknown
from unsc.evaluation.shared.metrics import metrics
from unsc.methods import find, methods, split_names
from unsc.progress import Progress, quiet
from unsc.storage.files import write_json
from unsc.storage.versions import versions


@dataclass(frozen=True)
class Finished:
    """A comparison as far as it came."""

    comparison: Comparison
    """With all methods and trials that its folder holds, those of earlier calls included."""
    failed: dict[str, str]
    """Pieces of work that could not be done, with the reason."""
    seconds: float

    @property
    def run(self) -> Comparison:
        """The old name of `comparison`."""
        warnings.warn("Finished.run is now Finished.comparison", DeprecationWarning, stacklevel=2)
        return self.comparison


def compare(
    config: Config, folder: Path, *, models: Path | None = None, jobs: int | None = None, progress: Progress = quiet
) -> Finished:
    """Carry out a comparison in `folder`, or resume the one that is there.

    Trained networks are kept in `models`, which other comparisons may share.
    """
    began = time.perf_counter()
    comparison = Comparison(folder, config, models)
    _check(comparison, jobs)
    whole = _prepare(comparison)
    chosen = list(config.methods)
    failed: dict[str, str] = {}
    with _workers(comparison, jobs, progress) as work:
        failed |= work("training networks", [Piece("train", (x,)) for x in comparison.trainings()])
        failed |= work("tuning", [Piece("tune", (name,)) for name in chosen])
        cells = [(trial, name) for trial in comparison.trials for name in (ORIGINAL, *chosen)]
        failed |= work("comparing", [Piece("judge", cell) for cell in cells])
    return Finished(Comparison(folder, whole, models), failed, time.perf_counter() - began)


@dataclass(frozen=True)
class Piece:
    """A piece of work for one process."""

    kind: Literal["train", "tune", "judge"]
    what: tuple[Training | Trial | str, ...]
    """A network to train, a method to tune, or a trial and the method to judge on it."""

    def __str__(self) -> str:
        return " ".join([self.kind, *map(_name, self.what)])


def _name(what: Training | Trial | str) -> str:
    if isinstance(what, Training):
        return what.key
    return f"trial {what.number}" if isinstance(what, Trial) else what


def chosen_methods(text: str) -> tuple[str, ...]:
    """`all`, or names separated by commas; the controls and retraining are always among them, to compare with."""
    known = methods()
    named = list(known) if text == "all" else [find(name).name for name in split_names(text)]
    controls = [name for name, method in known.items() if method.control]
    return tuple(dict.fromkeys([RETRAIN, *(name for name in named if name not in controls), *controls]))


def _check(comparison: Comparison, jobs: int | None) -> None:
    """Refuse what could not be carried out, before anything is written."""
    for name in comparison.config.methods:
        find(name)
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
    _ = comparison.trials  # reads the scenario


def _prepare(comparison: Comparison) -> Config:
    """Write the configuration, or check that the folder holds the same comparison; gives the whole of both."""
    folder, config = comparison.folder, comparison.config
    path = folder / "config.json"
    if path.exists():
        try:
            former = current_names(json.loads(path.read_text())["config"])
            same = json.loads(json.dumps(config.fixed()))
            other = {k: former.get(k) for k in same if former.get(k) != same[k]}
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as e:
            raise InvalidRequest(f"{path} is not a comparison's ({e}); name another folder with --out") from e
        if other:
            found = ", ".join(f"{k} is {v!r} there and {same[k]!r} here" for k, v in other.items())
            raise InvalidRequest(f"{folder} holds another comparison: {found}; name another folder with --out")
        both = dict.fromkeys([*former["methods"], *config.methods])
        config = replace(config, methods=tuple(both), trials=max(former["trials"], config.trials))
    elif folder.exists() and any(folder.iterdir()):
        raise InvalidRequest(f"{folder} holds something else; name another folder with --out")
    write_json(path, {"kind": "comparison", "config": asdict(config), "versions": versions()})
    return config


@contextmanager
def _workers(
    comparison: Comparison, jobs: int | None, progress: Progress
) -> Iterator[Callable[[str, list[Piece]], dict[str, str]]]:
    """A function that does a list of pieces of work in several processes, and gives what failed with the reason."""
    pool = ProcessPoolExecutor(jobs or os.cpu_count() or 1, get_context("spawn"), initializer=_begin)

    def work(title: str, pieces: list[Piece]) -> dict[str, str]:
        failed: dict[str, str] = {}
        where = comparison.folder, comparison.config, comparison.models
        futures = {pool.submit(_do, *where, piece): piece for piece in pieces}
        with progress(title, len(futures)) as advance:
            for future in as_completed(futures):
                if (message := future.result()) is not None:
                    failed[str(futures[future])] = message
                advance()
        return failed

    try:
        yield work
    except BrokenProcessPool as e:
        raise InvalidRequest(
            "a process was killed, perhaps because memory ran out; what is done is kept: run the same again, with "
            "fewer --jobs if memory is short"
        ) from e
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    torch.set_num_threads(1)  # small networks gain nothing from more, and processes would fight over them
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@cache
def _open(folder: Path, config: Config, models: Path | None) -> Judge:
    """One for each process, which reads its data once."""
    return Judge(Comparison(folder, config, models))


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
