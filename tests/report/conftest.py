"""Run folders to report on, made once."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from tiny_release import POLICY, Forgetting, make_store
from torch import nn

from unsc.api import forget
from unsc.bench.datasets import Split
from unsc.errors import NotForgottenWarning
from unsc.evaluation.side_by_side import FILE, Network, Part, side_by_side
from unsc.methods.logit_mask import LogitMask
from unsc.release.asked import Asked
from unsc.release.keys import PrivateKey
from unsc.release.policy import Policy
from unsc.release.release import handle
from unsc.storage.files import write_json

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="session")
def request_run(
    tmp_path_factory: pytest.TempPathFactory, digits: Split, digits_model: nn.Module, digits_retrained: nn.Module
) -> Path:
    """A folder as `unsc demo` and `unsc forget` write it: class 3 of the digits forgotten, beside three others."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    result = forget(digits_model, digits.train, classes=[3])
    result.save(folder)
    labels = digits.train.tensors[1]
    networks = [
        Network("original", "Original", "original", digits_model),
        Network("retrained", "Retrained", "retrained", digits_retrained, 5.0),
        Network("logit_mask", "Logit mask", "control", LogitMask(digits_model, [3]), 0.0),
        Network("result", "Result <b>", "result", result.model, 2.0, 0.1),
    ]
    seen = side_by_side(
        networks,
        result.request,
        test=Part.some(digits.test, digits.test.tensors[1]),
        data="test data",
        forgotten=Part.some(digits.train, labels, (labels == 3).nonzero().flatten()),
        run=result.metrics,
    )
    write_json(folder / FILE, seen)
    return folder


@pytest.fixture(scope="session")
def paper_run(tmp_path_factory: pytest.TempPathFactory, digits: Split, digits_model: nn.Module) -> Path:
    """A result that Python saved, of the paper's step and not long enough: no networks beside it."""
    folder = tmp_path_factory.mktemp("runs") / "paper"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotForgottenWarning)
        forget(digits_model, digits.train, classes=[3], step="paper", max_passes=1, lr=1e-6).save(folder)
    return folder


@pytest.fixture(scope="session")
def store_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Folders of a release and of a refusal."""
    root = tmp_path_factory.mktemp("store")
    store, key = make_store(root / "store"), PrivateKey.load_or_create(root / "key.pem")
    strict = Policy(limits={**POLICY.limits, "retained_kl": 1e-9}, required=POLICY.required)
    handle(store, Asked(classes=("bee",)), Forgetting(store), policy=strict, key=key, out=root / "no")
    handle(store, Asked(classes=("bee",)), Forgetting(store), policy=POLICY, key=key, out=root / "yes")
    return root / "yes", root / "no" / "refused-1"
