"""A plain install: the core works without the packages of the extras, and the rest says which extra it needs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import unsc

OPTIONAL = (
    "typer",
    "rich",
    "sklearn",
    "scipy",
    "matplotlib",
    "optuna",
    "pooch",
    "umap",
    "pandas",
    "PIL",
    "pyarrow",
    "datasets",
    "cryptography",
)

RESULTS = Path(__file__).parents[1] / "results"

ABSENT = """
import sys
from importlib.machinery import PathFinder

find = PathFinder.find_spec
PathFinder.find_spec = staticmethod(
    lambda name, *more: None if name.partition(".")[0] in {absent!r} else find(name, *more)
)
"""
"""Makes the import system find none of these packages, just as if they were not installed."""

TINY = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
labels = torch.arange(4).repeat(30)
data = TensorDataset(torch.eye(4)[labels].repeat(1, 3) + 0.1 * torch.randn(120, 12), labels)
model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 4))
for _ in range(100):
    gradients = torch.autograd.grad(nn.functional.cross_entropy(model(data.tensors[0]), labels), model.parameters())
    for p, gradient in zip(model.parameters(), gradients):
        p.data -= 0.5 * gradient
forget, retain = (TensorDataset(data.tensors[0][part], labels[part]) for part in (labels == 3, labels != 3))
"""


def python(code: str, *, absent: tuple[str, ...] = OPTIONAL, folder: Path | None = None) -> CompletedProcess[str]:
    """Run `code` in an interpreter that has none of the `absent` packages."""
    return subprocess.run(
        [sys.executable, "-c", ABSENT.format(absent=set(absent)) + code],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(unsc.__file__).parents[1])},
        capture_output=True,
        text=True,
    )


def test_importing_loads_the_core_alone() -> None:
    """Nothing beyond what torch, numpy, safetensors and the standard library load, and no room but the core."""
    code = """
import json, sys
import numpy, safetensors.torch, torch
before = set(sys.modules)
import unsc
later = {name: getattr(module, "__file__", None) for name, module in sys.modules.items() if name not in before}
print(json.dumps({name: file for name, file in later.items() if file}))
"""
    done = python(code, absent=())
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)
    others = {name for name in loaded if name.partition(".")[0] not in {"unsc", "torch", *sys.stdlib_module_names}}
    assert others == set()
    rooms = {name.split(".")[1] for name in loaded if name.startswith("unsc.")}
    assert rooms & {"methods", "evaluation", "release", "compare", "bench", "report", "cli"} == set()


def test_forgetting_needs_no_extra(tmp_path: Path) -> None:
    code = TINY + (
        "import unsc\n"
        "for wanted in ({'classes': [3]}, {'indices': [3, 7]}, {'classes': [3], 'step': 'paper'}):\n"
        "    result = unsc.forget(model, data, **wanted)\n"
        "result.save('saved')\n"
    )
    done = python(code, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {file.name for file in (tmp_path / "saved").iterdir()} >= {"model.safetensors", "metrics.json"}


def test_the_stages_need_no_extra() -> None:
    code = TINY + (
        "import unsc\n"
        "moments = unsc.collect_moments(model, DataLoader(retain, batch_size=30), num_classes=4)\n"
        "space = unsc.null_space(moments, retain=[0, 1, 2], energy=0.9, merge_energy=0.9)\n"
        "loaders = DataLoader(forget, batch_size=30), DataLoader(retain, batch_size=30)\n"
        "result = unsc.unlearn(model, loaders[0], space, retained=loaders[1], forget=[3])\n"
        "scores = unsc.evaluate(result.model, retain_test=retain, forget_test=forget)\n"
        "print(scores.retain_test_acc)\n"
    )
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 80


@pytest.mark.parametrize(
    ("call", "extra"),
    [
        ("import unsc; unsc.audit(model, data, data, classes=[3], names=['mia_confidence'])", "eval"),
        ("from unsc.bench.datasets import load; load('digits')", "data"),
        ("from unsc.loading.images import Limits, decode; decode(b'', 'a.png', Limits())", "images"),
        ("from unsc.loading.tables import Limits, Path, read_parquet; read_parquet(Path('a'), Limits())", "parquet"),
    ],
)
def test_a_call_without_its_extra_says_so(call: str, extra: str) -> None:
    done = python(f"{TINY}\ntry:\n    {call}\nexcept Exception as e:\n    print(type(e).__name__, e)\n")
    assert done.stdout.startswith("MissingExtra "), done.stdout + done.stderr
    assert f"pip install 'unsc[{extra}]'" in done.stdout


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_the_command_without_its_extra_says_so(missing: str) -> None:
    """One line, and no traceback."""
    done = python(_command("methods"), absent=(missing,))
    assert done.returncode != 0 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and missing in done.stderr and "pip install 'unsc[cli]'" in done.stderr


@pytest.mark.parametrize(
    ("words", "missing", "extra"),
    [
        ("compare --methods finetune --jobs 1", "sklearn", "(data|eval)"),
        ("tune finetune", "optuna", "tune"),
        ("demo", "sklearn", "data"),
        ("bench fetch", "pooch", "data"),
        ("bench render", "matplotlib", "figures"),
        ("verify receipt.json", "cryptography", "release"),
    ],
)
def test_a_command_without_its_extra_says_so(words: str, missing: str, extra: str, tmp_path: Path) -> None:
    """One line and exit code 2, like any other mistake that the user can mend."""
    figures = Path("cifar-10", "figures")
    (tmp_path / "runs" / "results" / figures).mkdir(parents=True)
    shutil.copy(RESULTS / figures / "pseudo.json", tmp_path / "runs" / "results" / figures)
    done = python(_command(words), absent=(missing,), folder=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr and re.search(rf"pip install 'unsc\[{extra}\]'", done.stderr)


def test_methods_and_metrics_are_listed_with_the_command_line_alone() -> None:
    absent = tuple(name for name in OPTIONAL if name not in ("typer", "rich"))
    for words in ("methods", "metrics"):
        done = python(_command(words), absent=absent)
        assert done.returncode == 0, done.stderr


def _command(words: str) -> str:
    return f"sys.argv = ['unsc', *{words.split()!r}]\nfrom unsc.cli import main\nmain()"
