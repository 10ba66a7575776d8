"""The course of steps, against an explicit mean and an explicit metric."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from unsc.layers import Weights, find_layers
from unsc.steps.course import Course
from unsc.steps.curvature import LayerCurvature
from unsc.steps.factors import LowRank, Matrix, dense

PAST = 0.7


@pytest.mark.parametrize("thin", [False, True])
def test_the_course_is_the_mean_of_directions_with_its_own_cost(thin: bool) -> None:
    """Weights fall by the same factor from step to step; the cost is that of the mean in the metric, the gain is what
    the newest gradient says."""
    g = torch.Generator().manual_seed(0)
    model = nn.Linear(5, 4, bias=False)
    layers = find_layers(model).layers
    vectors, _ = torch.linalg.qr(torch.randn(1, 5, 5, generator=g, dtype=torch.float64))
    curvature = LayerCurvature(torch.rand(1, 5, generator=g, dtype=torch.float64), vectors, 0.3, 0.2)
    metric = 0.3 * (vectors[0] @ torch.diag(curvature.values[0]) @ vectors[0].T + 0.2 * torch.eye(5).double())
    course, given = Course(Weights(model, layers), layers, PAST), []
    for _ in range(6):
        parts = [torch.randn(shape, generator=g, dtype=torch.float64) for shape in ((1, 4, 2), (1, 2, 5))]
        gradient: Matrix = LowRank(*parts) if thin else parts[0] @ parts[1]
        given.append(parts[0] @ parts[1])
        name = layers[0].name
        heading = course.turned({name: gradient}, {name: curvature.solve(gradient)})
        weights = torch.tensor([PAST ** (len(given) - 1 - i) for i in range(len(given))]).double()
        wanted = torch.einsum("i,iab->ab", weights / weights.sum(), torch.cat(given)) @ torch.linalg.inv(metric)
        torch.testing.assert_close(dense(heading.directions[name])[0], wanted)
        assert heading.costs.item() == pytest.approx((wanted @ metric @ wanted.T).trace().item())
        assert heading.gains.item() == pytest.approx((given[-1][0] * wanted).sum().item())


def test_without_a_past_each_batch_goes_its_own_way() -> None:
    model = nn.Linear(2, 2, bias=False)
    layers = find_layers(model).layers
    course, name = Course(Weights(model, layers), layers, 0.0), layers[0].name
    for direction in torch.randn(3, 1, 2, 2, generator=torch.Generator().manual_seed(1)):
        heading = course.turned({name: direction}, {name: 2 * direction})
        assert torch.equal(dense(heading.directions[name]), 2 * direction)
        assert heading.costs.item() == heading.gains.item() == pytest.approx(2 * direction.square().sum().item())


def test_a_course_that_leads_uphill_is_left() -> None:
    model = nn.Linear(2, 2, bias=False)
    layers = find_layers(model).layers
    course, name = Course(Weights(model, layers), layers, PAST), layers[0].name
    first = torch.randn(1, 2, 2, generator=torch.Generator().manual_seed(2))
    course.turned({name: first}, {name: 2 * first})
    onward = course.turned({name: 0.1 * first}, {name: 0.2 * first})
    assert not torch.equal(dense(onward.directions[name]), 0.2 * first), "the past counts"
    back = course.turned({name: -0.1 * first}, {name: -0.2 * first})
    assert torch.equal(dense(back.directions[name]), -0.2 * first) and back.gains.sum() > 0
