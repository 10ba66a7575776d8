"""Make notebooks of the examples' scripts and run them.

    python docs/site/notebooks.py [--keep]

Each runs from its first cell to its last in a kernel of its own, in an empty folder. What comes out is written to
`build/notebooks`, or with `--keep` to `examples/`, beside the scripts. A cell that raises fails the command.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))


def notebook_of(script: Path) -> nbformat.NotebookNode:
    """The cells of a script in the percent format; ids that do not change from one time to the next."""
    made = jupytext.read(script)
    made.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    for i, cell in enumerate(made.cells):
        cell["id"], cell["metadata"] = f"cell-{i}", {}
    return made


def executed(script: Path) -> nbformat.NotebookNode:
    made = notebook_of(script)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(made, timeout=600, resources={"metadata": {"path": folder}}).execute()
    for cell in made.cells:
        cell["metadata"] = {}  # the times of execution
    return made


def main() -> None:
    folder = ROOT / ("examples" if "--keep" in sys.argv[1:] else "build/notebooks")
    folder.mkdir(parents=True, exist_ok=True)
    for script in SCRIPTS:
        began = time.perf_counter()
        path = folder / f"{script.stem}.ipynb"
        nbformat.write(executed(script), path)
        print(f"{path.relative_to(ROOT)}: {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
