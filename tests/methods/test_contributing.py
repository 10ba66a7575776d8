"""The contributor's example of a method does what the guide says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

from unsc.datasets import read
from unsc.errors import InvalidRequest
from unsc.logits import accuracy
from unsc.methods import NO_DATA, Problem, apply, find, methods
from unsc.methods.shared.registry import temporary_methods
from unsc.request import Request

EXAMPLE = Path(__file__).parents[2] / "examples" / "contributing" / "method.py"


def test_a_file_is_a_method(digits_problem: Problem) -> None:
    """The forgotten class is recognised less, the original stays as it was, and what does not fit is refused."""
    forget = read(digits_problem.forget, range(100))
    with temporary_methods():
        runpy.run_path(str(EXAMPLE))
        shrink = find("shrink")
        assert shrink.defaults == {"factor": 0.1} and set(shrink.search) == {"factor"}
        assert all(part in shrink.about for part in ("Source:", "Mechanism:", "Data:", "Published:", "Departures:"))
        model = apply(shrink, digits_problem).model
        same = apply("shrink[factor=1.0]", digits_problem).model
        assert model is not None and same is not None
        assert accuracy(model, forget) < 50 < 90 < accuracy(digits_problem.model, forget)
        assert all(map(torch.equal, same.parameters(), digits_problem.model.parameters()))
        with pytest.raises(InvalidRequest, match="shrink needs the forgotten training samples"):
            apply(shrink, Problem(digits_problem.model, digits_problem.request, forget=NO_DATA))
        with pytest.raises(InvalidRequest, match="shrink forgets classes only"):
            apply(shrink, Problem(digits_problem.model, Request.for_records(None, 10), digits_problem.forget))
    assert "shrink" not in methods()
