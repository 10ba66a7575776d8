"""ReGUn: what is drawn for a record, and that the records come nearer to it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.data import Subset, TensorDataset

from unsc.bench.datasets import Split
from unsc.datasets import read, size_of
from unsc.errors import InvalidData, InvalidRequest
from unsc.methods import Problem, apply
from unsc.methods.regun import Reference, regun
from unsc.request import Request


@pytest.fixture
def of_records(digits_problem: Problem, digits: Split) -> Problem:
    forget, retain = Subset(digits.train, range(60)), Subset(digits.train, range(60, len(digits.train)))
    request = Request.for_records(None, 10)
    return replace(digits_problem, request=request, forget=forget, retain=retain, validation=digits.test)


def test_a_record_gets_the_mean_of_unseen_samples_of_its_class() -> None:
    """With one held-out sample of a class it is that sample's prediction; with many, near their mean."""
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    x, y = torch.randn(401, 4), torch.tensor([0] + [1] * 400)
    labels = torch.tensor([1] * 300 + [0])
    problem = Problem(
        model,
        Request.for_records(None, 3),
        forget=TensorDataset(torch.randn(301, 4), labels),
        retain=TensorDataset(x, y),
        validation=TensorDataset(x, y),
    )
    drawn = Reference(problem, problem.copy()).draw(labels)
    with torch.no_grad():
        predictions = model(x).softmax(dim=1)
    assert torch.allclose(drawn[-1], predictions[0])
    assert (drawn[:300] == drawn[0]).all()
    assert torch.allclose(drawn[0], predictions[1:].mean(dim=0), atol=0.05)


def test_records_come_nearer_to_unseen_samples(of_records: Problem) -> None:
    """The network is surer of records than of unseen samples, and less so afterwards; what stays is still right."""
    result = regun(of_records, lr=0.01, epochs=2)

    def confidence(model: nn.Module, part: object) -> float:
        batch = read(part, range(size_of(part)))  # type: ignore[arg-type]
        with torch.no_grad():
            return model(batch.inputs).softmax(dim=1).gather(1, batch.labels[:, None]).mean().item()

    before, after = (confidence(model, of_records.forget) for model in (of_records.model, result))
    unseen = confidence(of_records.model, of_records.validation)
    assert unseen < after < before
    assert confidence(result, of_records.retain) > 0.97


def test_what_it_cannot_do_is_said(of_records: Problem, digits_problem: Problem, digits: Split) -> None:
    others = (digits.test.tensors[1] != digits.train.tensors[1][0]).nonzero().flatten().tolist()
    with pytest.raises(InvalidData, match="validation has no sample of class"):
        regun(replace(of_records, validation=Subset(digits.test, others)))
    with pytest.raises(InvalidRequest, match="regun forgets records only"):
        apply("regun", replace(digits_problem, validation=digits.test))
