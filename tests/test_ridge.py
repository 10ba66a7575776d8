"""Ridge regression against what it is by definition: normal equations, and a fit without the row that is left out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from unsc.ridge import Ridge

SHAPES = [(30, 5), (12, 40)]
"""More rows than columns, and fewer."""


def data(n: int, d: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n)
    rows = torch.randn(n, d, generator=generator, dtype=torch.float64) + 2
    return rows, rows[:, :3] + torch.randn(n, 3, generator=generator, dtype=torch.float64) + 1


def by_definition(rows: Tensor, values: Tensor, penalty: float, *, constant: bool) -> tuple[Tensor, Tensor]:
    """The minimum of the squared error and `penalty` times the squared coefficients; the constant is not shrunk."""
    wide = torch.cat([rows, torch.full((len(rows), 1), float(constant), dtype=rows.dtype)], dim=1)
    shrunk = penalty * torch.eye(wide.shape[1], dtype=rows.dtype)
    shrunk[-1, -1] = 0.0 if constant else 1.0
    found = torch.linalg.solve(wide.T @ wide + shrunk, wide.T @ values).T
    return found[:, :-1], found[:, -1]


def penalty_of(rows: Tensor, ridge: float, *, constant: bool) -> float:
    centred = rows - rows.mean(dim=0) if constant else rows
    return ridge * centred.square().sum().item() / rows.shape[1]


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_solution_is_that_of_the_normal_equations(shape: tuple[int, int], constant: bool) -> None:
    rows, values = data(*shape)
    found = Ridge.of(rows, values, constant=constant).solution(0.1)
    expected = by_definition(rows, values, penalty_of(rows, 0.1, constant=constant), constant=constant)
    torch.testing.assert_close(found[0], expected[0])
    torch.testing.assert_close(found[1], expected[1])


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_left_out_are_those_of_a_fit_without_them(shape: tuple[int, int], constant: bool) -> None:
    rows, values = data(*shape)
    found = Ridge.of(rows, values, constant=constant).left_out(0.1)
    penalty = penalty_of(rows, 0.1, constant=constant)
    for i in range(len(rows)):
        others = torch.arange(len(rows)) != i
        weight, level = by_definition(rows[others], values[others], penalty, constant=constant)
        torch.testing.assert_close(found[i], weight @ rows[i] + level)
