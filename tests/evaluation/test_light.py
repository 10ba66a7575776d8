"""Methods and metrics are known without the packages that only some of them need."""

from __future__ import annotations

import subprocess
import sys

BLOCKED = ("sklearn", "scipy", "optuna", "matplotlib", "pooch", "typer", "rich")

CODE = f"""
import sys
from importlib.machinery import PathFinder

class Without:
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in {BLOCKED} else PathFinder.find_spec(name, path, target)

sys.meta_path = [Without() if finder is PathFinder else finder for finder in sys.meta_path]
import torch
from unsc.batches import Batch
from unsc.errors import MissingExtra
from unsc.evaluation.shared.case import Case
from unsc.evaluation.shared.metrics import measure, metrics
from unsc.methods import methods
from unsc.request import Request

assert "unsc" in methods() and "probe_linear" in metrics()
batch = Batch(torch.randn(12, 3), torch.arange(12) % 3)
parts = {{part: batch for part in ("forget_train", "retain_train", "forget_test", "retain_test")}}
case = Case(torch.nn.Linear(3, 3), Request.for_classes([2], 3), parts)
found = measure(case)
assert "retain_test_acc" in found.values
for name in ("probe_linear", "probe_knn", "mia_confidence"):
    assert "pip install 'unsc[eval]'" in found.skipped[name], found.skipped[name]
try:
    measure(case, ["probe_linear"])
except MissingExtra as e:
    print(e)
"""


def test_metrics_that_need_sklearn_are_skipped_without_it_and_refused_if_named() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("this needs sklearn, which is not installed")
