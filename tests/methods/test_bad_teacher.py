"""Bad teaching: two teachers, and who teaches which samples."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from unsc.batches import Batch
from unsc.bench.networks import digits_cnn
from unsc.errors import UnsupportedModel
from unsc.methods import Problem
from unsc.methods.bad_teacher import bad_teacher, marked_batches, newly_initialised, taught
from unsc.request import Request

SETTINGS = {"lr": 0.01, "epochs": 5, "batch_size": 64}


def _accuracy(model: nn.Module, batch: Batch) -> float:
    with torch.no_grad():
        return (model(batch.inputs).argmax(dim=1) == batch.labels).float().mean().item()


def test_new_parameters_are_those_of_a_new_network(digits_model: nn.Module) -> None:
    """Drawing anew with a seed is what building the network with that seed does; other draws are not disturbed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        fresh = digits_cnn()
    state = torch.random.get_rng_state()
    again = newly_initialised(Problem(digits_model, Request.for_classes([3], 10)).copy(), 5)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(map(torch.equal, again.state_dict().values(), fresh.state_dict().values()))


def test_attention_is_drawn_anew() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16)
    before = {k: v.clone() for k, v in layer.named_parameters() if v.dim() > 1}
    newly_initialised(layer, 3)
    after = dict(layer.named_parameters())
    assert all(not torch.equal(after[k], v) for k, v in before.items()) and len(before) == 4


def test_a_model_that_cannot_be_drawn_anew_is_refused() -> None:
    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2, 3))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.weight

    with pytest.raises(UnsupportedModel, match="no module of Bare has reset_parameters"):
        newly_initialised(Bare(), 0)
    with pytest.raises(UnsupportedModel):
        newly_initialised(nn.Sequential(nn.BatchNorm1d(2, affine=False), Bare()), 0)


def test_each_sample_has_its_teacher() -> None:
    """All forgotten samples once an epoch, marked 1, and the same half of the retained ones, marked 0."""
    labels = torch.zeros(10, dtype=torch.long)
    forget = TensorDataset(torch.arange(5.0)[:, None], labels[:5])
    retain = TensorDataset(torch.arange(100.0, 110.0)[:, None], labels)
    problem = Problem(nn.Linear(1, 2), Request.for_records(None, 2), forget=forget, retain=retain)
    batches, total = marked_batches(problem, 0.5, 4, 2)
    found = list(batches)
    assert len(found) == total == 6 and [len(b) for b in found] == [4, 4, 2] * 2
    epochs = [torch.cat([b.inputs[:, 0] for b in part]).tolist() for part in (found[:3], found[3:])]
    assert sorted(epochs[0]) == sorted(epochs[1]) and epochs[0] != epochs[1]
    assert sorted(epochs[0])[:5] == [0, 1, 2, 3, 4] and len(set(epochs[0])) == 10
    assert all(torch.equal(b.labels, (b.inputs[:, 0] < 100).long()) for b in found)
    other = torch.cat([b.inputs[:, 0] for b in marked_batches(replace(problem, seed=1), 0.5, 4, 1)[0]])
    assert sorted(other.tolist()) != sorted(epochs[0])


def test_two_competent_teachers_teach_nothing(digits_problem: Problem, digits_parts: dict) -> None:
    good = digits_problem.copy()
    model = taught(digits_problem, good, good, **SETTINGS, retain_share=0.3, temperature=2.0)
    for batch in digits_parts.values():
        torch.testing.assert_close(model(batch.inputs), good(batch.inputs), rtol=1e-3, atol=1e-3)


def test_one_step_by_hand() -> None:
    """With one-hot inputs a linear model's weights are its logits, and a step is -lr (q - p) / (n t)."""
    torch.manual_seed(0)
    model, good, bad = (nn.Linear(4, 3, bias=False).double() for _ in range(3))
    data = [TensorDataset(torch.eye(4).double()[part], torch.zeros(2, dtype=torch.long)) for part in ([0, 1], [2, 3])]
    problem = Problem(model, Request.for_records(None, 3), forget=data[0], retain=data[1])
    student = taught(problem, good, bad, lr=0.5, epochs=1, retain_share=1.0, temperature=2.0, batch_size=4)
    teachers = torch.cat([bad.weight[:, :2], good.weight[:, 2:]], dim=1)
    q, p = (torch.softmax(w / 2.0, dim=0) for w in (model.weight, teachers))
    torch.testing.assert_close(student.weight, model.weight - 0.5 * (q - p) / (4 * 2.0))


def test_a_class_is_forgotten(digits_problem: Problem, digits_parts: dict) -> None:
    model = bad_teacher(digits_problem, **SETTINGS)
    for part in ("train", "test"):
        assert _accuracy(digits_problem.model, digits_parts[f"forget_{part}"]) > 0.9
        assert _accuracy(model, digits_parts[f"forget_{part}"]) < 0.1
        assert _accuracy(model, digits_parts[f"retain_{part}"]) > 0.95
