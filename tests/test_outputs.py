"""Forgotten outputs: settled by what retained samples say alone, and as low as a retrained network has them."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from blobs import learned, network
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import unsc
from unsc.batches import Batch, as_batch
from unsc.bench.datasets import Split
from unsc.features import find_head, head_inputs
from unsc.models import editable_layers
from unsc.outputs import editable_head, settle

FORGOTTEN = 3
STAYS = torch.arange(6) != FORGOTTEN


def part(data: TensorDataset, chosen: Tensor) -> TensorDataset:
    x, y = data.tensors
    return TensorDataset(x[chosen], y[chosen])


def log_mass(model: nn.Module, data: TensorDataset) -> float:
    """Mean logarithm of the forgotten class's probability."""
    with torch.no_grad():
        return model(data.tensors[0]).log_softmax(dim=1)[:, FORGOTTEN].mean().item()


def before_head(model: nn.Module, batch: Batch) -> Tensor:
    """What the head is given."""
    return torch.cat([seen.inputs for seen in head_inputs(model, find_head(model, batch), [batch])])


def test_a_settled_row_has_nothing_of_its_class(model: nn.Module, points: TensorDataset) -> None:
    """Whatever the row was, it becomes the same one."""
    retained = as_batch(part(points, points.tensors[1] != FORGOTTEN)[:])
    rows = []
    for scale in (0.0, 1.0, 5.0):
        changed = copy.deepcopy(model)
        head = find_head(changed, retained)
        with torch.no_grad():
            head.layer.weight[FORGOTTEN] *= scale
            others = head.layer.weight[STAYS].clone(), head.layer.bias[STAYS].clone()
        settle(head.layer, [FORGOTTEN], STAYS, before_head(changed, retained))
        assert torch.equal(head.layer.weight[STAYS], others[0]) and torch.equal(head.layer.bias[STAYS], others[1])
        rows.append(torch.cat([head.layer.weight[FORGOTTEN], head.layer.bias[FORGOTTEN, None]]))
    assert torch.equal(rows[0], rows[1]) and torch.equal(rows[1], rows[2])


def test_a_settled_output_has_the_mean_of_the_lowest_scores(model: nn.Module, points: TensorDataset) -> None:
    """Of a least-squares fit with a free constant the residuals have mean 0."""
    changed, retained = copy.deepcopy(model), as_batch(part(points, points.tensors[1] != FORGOTTEN)[:])
    settle(find_head(changed, retained).layer, [FORGOTTEN], STAYS, before_head(changed, retained))
    with torch.no_grad():
        scores = changed(retained.inputs)
    lowest = scores[:, STAYS].min(dim=1).values
    assert scores[:, FORGOTTEN].mean().item() == pytest.approx(lowest.mean().item(), abs=1e-3)


def test_a_head_without_bias(points: TensorDataset) -> None:
    model = learned(nn.Sequential(*list(network(6).children())[:-1], nn.Linear(24, 6, bias=False)), points)
    result = unsc.forget(model, points, classes=[FORGOTTEN], stop_mass=0.3)  # where it ends there is much to settle
    assert result.metrics.settled_mass is not None and result.metrics.settled_mass < result.metrics.forget_mass


def test_outputs_are_as_low_as_in_a_retrained_network(
    digits: Split, digits_model: nn.Module, digits_retrained: nn.Module
) -> None:
    """In nats of log-probability on forgotten test samples: far from where forgetting stops, near to retraining."""
    result = unsc.forget(digits_model, digits.train, classes=[FORGOTTEN], stop_mass=0.1)
    test = part(digits.test, digits.test.tensors[1] == FORGOTTEN)
    ours, reference = log_mass(result.model, test), log_mass(digits_retrained, test)
    assert result.metrics.settled_mass is not None and result.metrics.settled_mass < 1e-3 < result.metrics.forget_mass
    assert abs(ours - reference) < 6 < abs(torch.tensor(result.metrics.forget_mass).log().item() - reference)


def test_with_no_mass_allowed_outputs_are_as_low_as_retained_scores(model: nn.Module, points: TensorDataset) -> None:
    """No bias brings a probability to 0, so that none is looked for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", unsc.NotForgottenWarning)
        result = unsc.forget(model, points, classes=[FORGOTTEN], stop_mass=0.0, max_passes=2)
    assert result.metrics.settled_mass is None or 0 < result.metrics.settled_mass < result.metrics.forget_mass


def test_what_is_not_forgotten_is_not_hidden(model: nn.Module, points: TensorDataset) -> None:
    with pytest.warns(unsc.NotForgottenWarning):
        failed = unsc.forget(model, points, classes=[FORGOTTEN], budget=1e-9, max_passes=1)
    own = part(points, points.tensors[1] == FORGOTTEN)
    assert failed.metrics.settled_mass is None
    assert (failed.model(own.tensors[0]).argmax(dim=1) == FORGOTTEN).all()


def test_retained_predictions_do_not_see_it(model: nn.Module, points: TensorDataset) -> None:
    """Over the classes that stay, the settled network says exactly what the network said that was judged."""
    settled = unsc.forget(model, points, classes=[FORGOTTEN])
    plain = unsc.forget(model, points, classes=[FORGOTTEN], drop_outputs=True)
    with torch.no_grad():
        scores = settled.model(points.tensors[0])[:, STAYS], plain.model(points.tensors[0])
    torch.testing.assert_close(*scores)
    assert settled.metrics.retained_kl == plain.metrics.retained_kl


def test_the_papers_step_leaves_outputs_alone(model: nn.Module, points: TensorDataset) -> None:
    result = unsc.forget(model, points, classes=[FORGOTTEN], step="paper", energy=0.7, merge_energy=0.7, max_kl=10.0)
    assert result.ok and result.metrics.settled_mass is None


def test_a_head_that_may_not_be_edited_is_not_settled(model: nn.Module, points: TensorDataset) -> None:
    result = unsc.forget(model, points, classes=[FORGOTTEN], parameters=["0.weight", "0.bias"], max_kl=10.0)
    assert torch.equal(list(result.model.parameters())[-1], list(model.parameters())[-1])


class FedBack(nn.Module):
    """What the head says first is fed back, and then it is asked again; by itself, or by a layer with its weights."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.head, self.features, self.back = nn.Linear(24, 6), nn.Linear(6, 24), nn.Linear(6, 24)
        self.early = nn.Linear(24, 6) if tied else self.head
        self.early.weight = self.head.weight

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x).relu()
        return self.head((x + self.back(3 * self.early(x).softmax(dim=1))).relu())


@pytest.mark.parametrize("tied", [True, False])
def test_a_head_that_features_depend_on_is_left_as_it_is(points: TensorDataset, tied: bool) -> None:
    """Otherwise its outputs were fitted and settled for features that change with them, and figures were untrue."""
    torch.manual_seed(0)
    model = learned(FedBack(tied), points)
    probe = as_batch(points[:4])
    layers, _ = editable_layers(model, probe)
    assert find_head(model, probe).path == "head"
    assert editable_head(model, layers, probe) is None
    result = unsc.forget(model, points, classes=[FORGOTTEN])
    assert result.ok
    assert result.metrics.settled_mass is None


def test_a_head_that_is_used_once_is_editable(model: nn.Module, points: TensorDataset) -> None:
    probe = as_batch(points[:4])
    found = editable_head(model, editable_layers(model, probe)[0], probe)
    assert found is not None
    assert found.path == "2"
