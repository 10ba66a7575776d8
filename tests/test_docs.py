"""Every code block of the documentation runs, in the order of its page, or says above itself why it does not.

A page's blocks share a folder and their names. A block whose title is a file's name is saved under it; commands are
those of `unsc`, and targets of the Makefile, and end with exit code 0, or as their title says. What a page takes for
granted, such as a trained model, is made here.
"""

from __future__ import annotations

import ast
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from code_blocks import blocks
from safetensors.torch import save_file
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset
from typer.main import get_command

import unsc
from unsc import cli
from unsc.api import forget
from unsc.bench.datasets import Split
from unsc.bench.train import fit
from unsc.cli.commands import app
from unsc.evaluation.shared.metrics import metrics

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "results" / "README.md"])
ELSEWHERE = {"docs/comparison-howto.md": "tests/compare/test_howto.py"}
"""Pages whose Python is run by a test of its own, which also looks at what comes out."""
LANGUAGES = ("python", "console", "toml", "text")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_say_what_they_are(page: Path) -> None:
    """A language that this file knows; no block hides in indentation; a reason where a block is not run."""
    wrong = [f"{name_of(page)}:{b.line}: {b.language or 'no language'}" for b in blocks(page)]
    assert [w for w, b in zip(wrong, blocks(page), strict=True) if b.language not in LANGUAGES] == []
    assert re.findall(r"^\n {4,}\S.*(?:unsc |import )", page.read_text(), re.MULTILINE) == []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, from which modules may be imported; what was imported from it is gone afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("unsc.loading.in_workers.usual_workers", lambda: 0)  # two dozen images need no processes
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


RUN = [
    page for page in PAGES if any(b.language in ("python", "console", "toml") and not b.not_run for b in blocks(page))
]


@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_blocks_run(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    give = GIVEN.get(name_of(page))
    names: dict[str, Any] = {"__name__": "__main__", **(give(request, folder) if give else {})}
    for block in blocks(page):
        if block.not_run:
            continue
        where = f"{name_of(page)}:{block.line}"
        if block.file:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text)
        elif block.language == "python" and name_of(page) not in ELSEWHERE:
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
        elif block.language == "console":
            for words in block.commands():
                run(words, monkeypatch, where, block.exit_codes)
        elif block.language == "toml":
            tomllib = pytest.importorskip("tomllib")
            assert tomllib.loads(block.text), where


COMMANDS = [
    (f"{name_of(page)}:{block.line}", words)
    for page in PAGES
    for block in blocks(page)
    if block.language == "console" and block.not_run
    for words in block.commands()
    if words[0] == "unsc"
]


@pytest.mark.parametrize(("where", "words"), COMMANDS, ids=[f"{where}-{i}" for i, (where, _) in enumerate(COMMANDS)])
def test_commands_that_are_not_run_exist(where: str, words: list[str]) -> None:
    """With these options, and values of their kinds."""
    command, rest = get_command(app), words[1:]
    while rest and (deeper := getattr(command, "commands", {}).get(rest[0])):
        command, rest = deeper, rest[1:]
    assert command.make_context(words[0], rest).params, where


def run(words: list[str], monkeypatch: pytest.MonkeyPatch, where: str, codes: Collection[int]) -> None:
    """`unsc` in this process; of `make`, that there is such a target; nothing else."""
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), f"{where}: no such target"
        return
    assert words[0] == "unsc", f"{where}: {words[0]} cannot be run here; say why (title='Not run in CI: ...')"
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert (stop.value.code or 0) in codes, f"{where}: exit code {stop.value.code}"


LINES = [
    (page, path, quoted)
    for page in PAGES
    for path, quoted in re.findall(r'\]\(([^)\s"]+\.py) "([^"]+)"\)', page.read_text())
]


@pytest.mark.parametrize(("page", "path", "quoted"), LINES, ids=[f"{path}-{i}" for i, (_, path, _) in enumerate(LINES)])
def test_a_formula_links_to_its_line(page: Path, path: str, quoted: str) -> None:
    """The line that a link quotes is in the file that it leads to, once; and it is code, no comment or docstring."""
    source = (page.parent / path).read_text()
    found = [n for n, line in enumerate(source.splitlines(), 1) if quoted in line]
    assert len(found) == 1, f"{path}: {quoted!r} is in lines {found}"
    statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    own = max((s for s in statements if s.lineno <= found[0] <= (s.end_lineno or 0)), key=lambda s: s.lineno)
    assert not (isinstance(own, ast.Expr) and isinstance(own.value, ast.Constant))


def test_the_reference_has_every_public_name() -> None:
    entries = re.findall(r"^::: (\S+)", (ROOT / "docs" / "reference.md").read_text(), re.MULTILINE)
    whole = {name for name in unsc.__all__ if getattr(unsc, name).__module__ in entries}  # of a module that is an entry
    assert set(unsc.__all__) - whole <= {entry.rpartition(".")[2] for entry in entries}


def test_every_metric_is_explained_with_what_fools_it() -> None:
    rows = re.findall(r"^\| (`.*?`) \|", (ROOT / "docs" / "evaluation.md").read_text(), re.MULTILINE)
    explained = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert set(metrics()) <= explained


def test_formulas_are_linked() -> None:
    """Each row of a table of formulas ends with a link."""
    rows = re.findall(r"^\| (?!formula|---).*", (ROOT / "docs" / "pictures.md").read_text(), re.MULTILINE)
    assert len(rows) == len(LINES) > 10


Give = Callable[[pytest.FixtureRequest, Path], dict[str, Any]]


def _digits(request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    """A network that knows ten digits, and its data in the parts that the pages name."""
    digits: Split = request.getfixturevalue("digits")
    model: nn.Module = request.getfixturevalue("digits_model")
    labels = digits.train.tensors[1]
    forget, retain = (Subset(digits.train, part.nonzero().flatten().tolist()) for part in (labels == 3, labels != 3))
    gone = digits.test.tensors[1] == 3
    return {
        "model": model,
        "train": digits.train,
        "train_set": digits.train,
        "test": digits.test,
        "validation_set": digits.test,
        "forget_set": forget,
        "retain_set": retain,
        "forget_loader": DataLoader(forget, batch_size=64),
        "retain_loader": DataLoader(Subset(retain, range(400)), batch_size=64),
        "check_loader": DataLoader(Subset(retain, range(400, 600)), batch_size=64),
        "forget_test": TensorDataset(*(t[gone] for t in digits.test.tensors)),
        "retain_test": TensorDataset(*(t[~gone] for t in digits.test.tensors)),
    }


def _digits_and_references(request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    """The same, with the network before and one that was trained anew."""
    names = _digits(request, folder)
    return names | {"original": names["model"], "retrained": request.getfixturevalue("digits_retrained")}


_NET = """
from torch import nn

def build():
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 128), nn.ReLU(), nn.Linear(128, 4))
"""
_COLOURS = {"ant": (40, 0, 0), "bee": (0, 40, 0), "cat": (0, 0, 40), "dog": (40, 40, 0)}


def _image_folder(request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    """`app/net.py`, `model.safetensors`, and in `data/` pictures to train and to test, tinted faintly by class."""
    image = pytest.importorskip("PIL.Image")
    generator = torch.Generator().manual_seed(0)
    (folder / "app").mkdir()
    (folder / "app" / "net.py").write_text(_NET)
    own: dict[str, Any] = {}
    exec(_NET, own)
    pixels, labels = [], []
    for part, each in (("train", 40), ("test", 20)):
        for k, (name, colour) in enumerate(_COLOURS.items()):
            (folder / "data" / part / name).mkdir(parents=True)
            for i in range(each):
                one = torch.randint(0, 200, (8, 8, 3), generator=generator) + torch.tensor(colour)
                image.fromarray(one.byte().numpy()).save(folder / "data" / part / name / f"{i}.png")
                if part == "train":
                    pixels.append(one.permute(2, 0, 1) / 255)
                    labels.append(k)
    torch.manual_seed(0)
    network = fit(own["build"](), torch.stack(pixels), torch.tensor(labels), epochs=40, batch_size=16)
    save_file(network.state_dict(), folder / "model.safetensors")
    ids = [f"{name}/{i}.png" for name in ("cat", "dog") for i in range(10)]
    (folder / "request.csv").write_text("\n".join(["id", *ids, ""]))
    return {}


def _runs(request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    """A run and a comparison in their folders."""
    names = _digits(request, folder)
    forget(names["model"], names["train"], classes=[3]).save(folder / "runs" / "first")
    shutil.copytree(ROOT / "results" / "compare-digits", folder / "runs" / "compare-digits")
    return {}


GIVEN: dict[str, Give] = {
    "docs/report.md": _runs,
    "README.md": _digits,
    "docs/method.md": _digits,
    "docs/methods.md": _digits,
    "docs/evaluation.md": _digits_and_references,
    "docs/requests.md": _image_folder,
}
"""What a page takes for granted."""
