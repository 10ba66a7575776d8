"""Files that only run elsewhere: held against their schemas, and against what `make test` does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"

SCHEMAS = {
    "vendor.github-workflows": sorted((GITHUB / "workflows").glob("*.yml")),
    "vendor.github-issue-forms": sorted(
        set((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) - {GITHUB / "ISSUE_TEMPLATE/config.yml"}
    ),
    "vendor.github-issue-config": [GITHUB / "ISSUE_TEMPLATE" / "config.yml"],
    "vendor.citation-file-format": [ROOT / "CITATION.cff"],
}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_have_their_schema(schema: str) -> None:
    """By check-jsonschema, in a process of its own; its schemas come with it."""
    files = SCHEMAS[schema]
    assert files
    run = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, files)],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_pre_commit_runs_the_checks_of_make_test() -> None:
    """All of them, and no others: the quick ones before a commit, the tests before a push."""
    recipe = re.search(r"^test:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    arguments = re.search(r"^PYTEST_ARGS \?= (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None and arguments is not None
    checks = recipe.group(1).replace("$(BIN)/", "").replace("$(PYTEST_ARGS)", arguments.group(1))
    wanted = [line.strip() for line in checks.splitlines() if not line.startswith("\t@#")]
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    found = [hook["entry"].replace(".venv/bin/", "").removeprefix("env ") for hook in hooks]
    assert [entry.replace(" --force-exclude", "") for entry in found] == [line.removesuffix(" .") for line in wanted]
    assert [hook.get("stages", ["pre-commit"]) for hook in hooks] == [*[["pre-commit"]] * 4, ["pre-push"]]


def test_every_supported_python_is_named_and_checked() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    named = re.findall(r"Python :: (3\.\d+)", project)
    workflow = yaml.safe_load((GITHUB / "workflows" / "checks.yml").read_text())
    assert workflow["jobs"]["pinned"]["strategy"]["matrix"]["python"] == named
    assert f'requires-python = ">={named[0]}"' in project
    assert f"(3, {named[-1].split('.')[1]})" in (ROOT / "Makefile").read_text()
