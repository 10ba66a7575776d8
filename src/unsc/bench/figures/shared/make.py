"""Figures into a folder of results: numbers are measured once, pictures are drawn from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from unsc.bench.experiments import experiments
from unsc.bench.figures.shared.figure import FIGURES, Content, LoneFigure, NetworkFigure, ResultFigure
from unsc.bench.figures.shared.subject import Subject
from unsc.bench.results import Result, read_results
from unsc.errors import InvalidData, InvalidRequest, UnscError
from unsc.progress import Progress, quiet
from unsc.storage.files import write_whole

Measure = Callable[[], Content]


def measure_figures(
    data: str, out: Path, *, work: Path, preset: str = "cpu", seed: int = 0, progress: Progress = quiet
) -> dict[str, str]:
    """Measure what the figures of a data set, or the lone figure of this name, still lack in the results at `out`.

    Networks are taken from the folder `work`, or trained and kept there. Gives what failed, with the reason.
    """
    alone = FIGURES.all().get(data)
    if isinstance(alone, LoneFigure):
        return measure_missing({data: partial(alone.measure, seed, progress)}, out / data)
    (experiment,) = experiments("table1", data, preset=preset, seed=seed)
    subject = Subject.of(experiment, work, progress=progress)
    return measure_missing(measures(subject), out / experiment.config.data)


def measures(subject: Subject) -> dict[str, Measure]:
    """What there is to measure on a data set's networks, by the figure's name."""

    def measure(figure: NetworkFigure) -> Content:
        return subject.about() | figure.measure(subject)

    figures = [figure for figure in FIGURES.all().values() if isinstance(figure, NetworkFigure)]
    return {figure.name: partial(measure, figure) for figure in figures}


def measure_missing(wanted: Mapping[str, Measure], folder: Path) -> dict[str, str]:
    """Write `figures/NAME.json` for each figure that `folder` lacks; gives those that failed, with the reason."""
    failed = {}
    for name, measure in wanted.items():
        path = folder / "figures" / f"{name}.json"
        if not path.exists():
            try:
                _write(path, measure())
            except UnscError as e:
                failed[name] = str(e)
    return failed


def draw_all(out: Path) -> list[Path]:
    """Every picture for which the files in a folder of results suffice."""
    drawn = []
    known = FIGURES.all()
    for source in sorted(out.glob("*/figures/*.json")):
        figure = known.get(source.stem)
        if isinstance(figure, NetworkFigure | LoneFigure):
            drawn.append(source.parent.parent / f"{source.stem}.png")
            _draw(figure, source, drawn[-1])
    by_data: dict[str, list[Result]] = {}
    for result in read_results(out):
        by_data.setdefault(result.data, []).append(result)
    for data, found in by_data.items():
        for figure in known.values():
            if isinstance(figure, ResultFigure):
                drawn += _draw_results(figure, found, out / data)
    return drawn


def draw_results(name: str, data: str, out: Path) -> list[Path]:
    """The pictures of one figure that is made from the results of a data set."""
    figure, folder = FIGURES.find(name), out / data
    if not isinstance(figure, ResultFigure):
        raise InvalidRequest(f"the figure {name} is not made from results; run unsc bench figures")
    drawn = _draw_results(figure, [result for result in read_results(out) if result.data == data], folder)
    if not drawn:
        command = f"unsc bench table1 --data {data}".replace("@", " --preset ")
        raise InvalidRequest(f"there are no results for the figure {name} in {folder}; run {command}")
    return drawn


def _draw_results(figure: ResultFigure, found: Sequence[Result], folder: Path) -> list[Path]:
    drawn = []
    for name, content in figure.gather(found).items():
        drawn.append(folder / f"{name}.png")
        figure.draw(content, drawn[-1])
    return drawn


def _draw(figure: NetworkFigure | LoneFigure, source: Path, path: Path) -> None:
    try:
        figure.draw(json.loads(source.read_text()), path)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as e:
        raise InvalidData(f"{source} cannot be drawn ({e!r}); remove it, and run unsc bench figures again") from e


def _write(path: Path, content: Content) -> None:
    """JSON with a line for each entry: thousands of coordinates on lines of their own would help nobody."""
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in content.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    write_whole(path, lambda p: p.write_text(text))
