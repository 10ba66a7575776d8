"""The command line: options in, tables out; no logic."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from unsc.cli.bench import app as bench
from unsc.errors import InvalidRequest, UnscError

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Make a trained classifier forget, and show how well it did."
)
app.add_typer(bench, name="bench")

_DATA = "digits; fashion-mnist, svhn, cifar-10 or cifar-100 in the folder UNSC_DATA; or package.module:function."


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if show:
        from unsc import __version__

        print(__version__)
        raise typer.Exit


@app.command()
def demo(
    classes: Annotated[str, typer.Option(help="Digits to forget, separated by commas.")] = "3",
    out: Annotated[Path, typer.Option(help="Folder for the run; a former demo there is replaced.")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="Seed of training and forgetting.")] = 0,
) -> None:
    """Train a small CNN on handwritten digits, forget a class in several ways, and compare."""
    from unsc.bench import demo as the_demo
    from unsc.progress import bar

    chosen = _numbers(classes)
    rows = the_demo.demo(chosen, out=out, seed=seed, progress=bar)
    console = Console()
    the_demo.show(rows, chosen, console)
    console.print(f"Written to {out}: metrics.json, config.json, two checkpoints, class_accuracy.png", soft_wrap=True)


@app.command("methods")
def list_methods(
    name: Annotated[str | None, typer.Argument(help="A method to read about; without one, all are listed.")] = None,
) -> None:
    """List the methods, or tell all about one of them."""
    from unsc.cli.tables import about_method, methods_table

    console = Console()
    console.print(methods_table() if name is None else about_method(name))


@app.command("metrics")
def list_metrics() -> None:
    """List the metrics: what they measure, which way is better, and what they need."""
    from unsc.cli.tables import about_metrics

    Console().print(about_metrics())


@app.command()
def tune(
    method: Annotated[str, typer.Argument(help="The method; `unsc methods` lists them.")],
    data: Annotated[str, typer.Option(help=_DATA)] = "digits",
    trials: Annotated[int, typer.Option(help="Settings to try.")] = 30,
    seconds: Annotated[float, typer.Option(help="Time for them.")] = 30.0,
    seed: Annotated[int, typer.Option(help="Seed of the network and the search.")] = 0,
    out: Annotated[Path | None, typer.Option(help="File for what was chosen; runs/tune/METHOD.json.")] = None,
) -> None:
    """Choose a method's settings on validation data; the test data is looked at once, at the end."""
    from unsc.cli.tables import tuned_table
    from unsc.compare.choose import choose
    from unsc.progress import bar

    path = out or Path("runs/tune") / f"{method}.json"
    tuned, test = choose(method, data, trials=trials, seconds=seconds, seed=seed, path=path, progress=bar)
    console = Console()
    console.print(tuned_table(tuned))
    console.print(f"Chosen on validation data: {tuned.best.settings or 'nothing to choose'}")
    console.print(f"On test data, once: retain {test['retain_acc']:.2f} %, forget {test['forget_acc']:.2f} %")
    console.print(f"Written to {path}", soft_wrap=True)


@app.command()
def compare(
    data: Annotated[str, typer.Option(help=_DATA)] = "digits",
    methods: Annotated[str, typer.Option(help="all, or names separated by commas.")] = "all",
    trials: Annotated[int, typer.Option(help="Each has its own seeds and forgets another class.")] = 3,
    tune_trials: Annotated[int, typer.Option(help="Settings to try for each method; 0: published ones.")] = 30,
    tune_seconds: Annotated[float, typer.Option(help="Time for them, for each method.")] = 30.0,
    shadows: Annotated[int, typer.Option(help="Shadow models of each kind; references are twice as many.")] = 4,
    metrics: Annotated[str | None, typer.Option(help="Names separated by commas; all by default.")] = None,
    seed: Annotated[int, typer.Option(help="All other seeds follow from it.")] = 0,
    jobs: Annotated[int | None, typer.Option(help="Processes; as many as there are cores by default.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder; a comparison there is gone on with.")] = None,
) -> None:
    """Compare methods, all tuned and judged alike; goes on where it was stopped."""
    from unsc.compare import Config, chosen_methods
    from unsc.compare import compare as the_comparison
    from unsc.compare.render import write_report
    from unsc.loading.code import import_callable
    from unsc.progress import bar

    if ":" in data:
        import_callable(data)  # its module may register methods
    chosen = _names(metrics)
    config = Config(data, chosen_methods(methods), trials, seed, tune_trials, tune_seconds, shadows, chosen)
    folder = out or Path("runs") / f"compare-{data.replace(':', '-')}"
    finished = the_comparison(config, folder, jobs=jobs, progress=bar)
    console = Console()
    write_report(finished, shlex.join(["unsc", *sys.argv[1:]]), console)
    written = "report.md, scorecard.png, results.json, results.csv, config.json"
    console.print(f"Written to {folder}: {written}", soft_wrap=True)
    if finished.failed:
        _complain(f"{what}: {why}" for what, why in finished.failed.items())
        raise typer.Exit(1)


@app.command()
def audit(
    model: Annotated[Path, typer.Option(help="Weights to judge: .safetensors, or .pt that holds tensors alone.")],
    network: Annotated[str, typer.Option(help="package.module:callable that makes the network.")],
    forgotten: Annotated[str, typer.Option(help="The classes it should have forgotten, separated by commas.")],
    data: Annotated[str, typer.Option(help="digits, or package.module:function that gives (train, test).")] = "digits",
    original: Annotated[Path | None, typer.Option(help="Weights before unlearning.")] = None,
    retrained: Annotated[Path | None, typer.Option(help="Weights of a network trained without the classes.")] = None,
    twin: Annotated[Path | None, typer.Option(help="Weights of a second one.")] = None,
    metrics: Annotated[str | None, typer.Option(help="Names separated by commas; by default all possible.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of what is drawn at random.")] = 0,
    out: Annotated[Path, typer.Option(help="File for the result.")] = Path("runs/audit.json"),
) -> None:
    """Judge any model that should have forgotten classes."""
    from unsc.cli.tables import audit_table, skipped_lines
    from unsc.compare.scenarios import load_data
    from unsc.evaluation.audit import audit as the_audit
    from unsc.loading.weights import load_model
    from unsc.storage.files import write_json

    train, test = load_data(data)
    others = {"original": original, "retrained": retrained, "twin": twin}
    models: dict[str, Any] = {name: load_model(network, path) for name, path in others.items() if path is not None}
    names = _names(metrics)
    chosen = _numbers(forgotten, "--forgotten")
    result = the_audit(load_model(network, model), train, test, classes=chosen, names=names, seed=seed, **models)
    write_json(out, {"model": model.name, "forgotten": chosen, **result.to_dict()})
    console = Console()
    console.print(audit_table(result))
    for line in skipped_lines(result.model):
        console.print(line, soft_wrap=True, markup=False)
    console.print(f"Written to {out}", soft_wrap=True)


def _numbers(text: str, option: str = "--classes") -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InvalidRequest(f"{option} {text!r}; give whole numbers separated by commas, like 3 or 3,5") from None


def _names(text: str | None) -> tuple[str, ...] | None:
    return tuple(name.strip() for name in text.split(",")) if text else None


def _complain(lines: object) -> None:
    for line in lines:  # type: ignore[attr-defined]
        Console(stderr=True).print(f"error: {line}", style="red", markup=False, highlight=False, soft_wrap=True)


def main() -> None:
    """Entry point: a user's mistake is a message, not a traceback."""
    try:
        app()
    except UnscError as e:
        _complain([e])
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
