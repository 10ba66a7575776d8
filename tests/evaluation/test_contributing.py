"""The contributor's example of a metric does what the guide says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

from unsc.evaluation.shared.case import Case
from unsc.evaluation.shared.metrics import measure, metrics, temporary_metrics

EXAMPLE = Path(__file__).parents[2] / "examples" / "contributing" / "metric.py"


def test_a_file_is_a_metric(digits_case: Case) -> None:
    """It is measured by its name, like any other, and against the definition."""
    with temporary_metrics():
        runpy.run_path(str(EXAMPLE))
        assert metrics()["forget_entropy"].unit == "nats"
        found = measure(digits_case, ["forget_entropy"]).values["forget_entropy"]
        p = torch.distributions.Categorical(logits=digits_case.logits("forget_test"))
        assert found.value == pytest.approx(p.entropy().mean().item()) and found.n == len(p.entropy())
    assert "forget_entropy" not in metrics()
