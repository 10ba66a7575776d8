"""The contributor's example of a method does what it says."""

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

EXAMPLE = Path(__file__).parents[2] / "examples" / "contributing" / "method.py"


def test_a_file_is_a_method(digits_problem: Problem) -> None:
    """The class is forgotten, the original stays as it was, and a problem that does not fit is refused."""
    before = [p.clone() for p in digits_problem.model.parameters()]
    forget = read(digits_problem.forget, range(100))
    with temporary_methods():
        runpy.run_path(str(EXAMPLE))
        undecided = find("undecided")
        assert set(undecided.search) == {"lr", "epochs"} and undecided.kinds == ("classes", "records")
        assert all(part in undecided.about for part in ("Source:", "Mechanism:", "Data:", "Published:", "Departures:"))
        model = apply(undecided, digits_problem).model
        same = apply("undecided[lr=0.0]", digits_problem).model
        assert model is not None and same is not None
        assert accuracy(model, forget) < 10 and accuracy(digits_problem.model, forget) > 90
        assert all(map(torch.equal, same.parameters(), before))
        assert all(map(torch.equal, digits_problem.model.parameters(), before))
        with pytest.raises(InvalidRequest, match="undecided needs the forgotten training samples"):
            apply(undecided, Problem(digits_problem.model, digits_problem.request, forget=NO_DATA))
    assert "undecided" not in methods()
