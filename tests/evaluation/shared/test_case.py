"""A case computes scores once, for whichever model, and has all its parts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.cost import Cost
from unsc.errors import InvalidData, InvalidRequest
from unsc.evaluation.shared.case import Case
from unsc.request import Request

REQUEST = Request.for_classes([2], 3)


class Counting(nn.Module):
    """Counts the samples it was asked for, in all its copies."""

    def __init__(self, add: float = 0.0) -> None:
        super().__init__()
        self.add = nn.Parameter(torch.tensor(add))
        self.dropout = nn.Dropout(0.9)
        self.seen = _Total()

    def forward(self, x: Tensor) -> Tensor:
        self.seen.n += len(x)
        return self.dropout(x + self.add)


class _Total:
    n = 0

    def __deepcopy__(self, memo: dict) -> _Total:
        return self


def part(n: int) -> Batch:
    return Batch(torch.randn(n, 3), torch.arange(n) % 3)


def parts(**sizes: int) -> dict:
    names = ("forget_train", "retain_train", "forget_test", "retain_test")
    return {name: part(sizes.get(name, 2)) for name in names}


def test_scores_are_computed_once_in_pieces_in_evaluation_mode() -> None:
    model = Counting().train()
    case = Case(model, REQUEST, parts(retain_test=600))
    logits = case.logits("retain_test")
    assert logits.dtype == torch.float64 and torch.equal(logits, case.parts["retain_test"].inputs.double())
    assert case.logits("retain_test") is logits and model.seen.n == 600
    assert model.training


def test_models_and_parts_are_kept_apart() -> None:
    model, other = Counting(), Counting(1.0)
    case = Case(model, REQUEST, parts())
    assert torch.equal(case.logits("forget_test", other), (case.parts["forget_test"].inputs + 1).double())
    assert torch.equal(case.logits("forget_test"), case.parts["forget_test"].inputs.double())
    assert torch.equal(case.logits("forget_train"), case.parts["forget_train"].inputs.double())


def test_the_case_of_another_model_shares_what_is_computed() -> None:
    model, other = Counting(), Counting(1.0)
    case = Case(model, REQUEST, parts(), retrained=other)
    before = case.logits("forget_test", other)
    of_other = case.of(other)
    assert of_other.model is other and of_other.retrained is other and case.model is model
    assert of_other.logits("forget_test") is before


def test_scores_of_models_that_come_and_go_are_not_mixed_up() -> None:
    """A new model may get the address of one that is gone."""
    case = Case(Counting(), REQUEST, parts())
    for add in range(20):
        assert torch.equal(
            case.logits("forget_test", Counting(float(add))), (case.parts["forget_test"].inputs + add).double()
        )


def test_labels_are_those_of_the_part() -> None:
    assert Case(Counting(), REQUEST, parts(forget_test=4)).labels("forget_test").tolist() == [
        0,
        1,
        2,
        0,
    ]


@pytest.mark.parametrize("name", ["forget_train", "retain_train", "forget_test", "retain_test"])
def test_a_part_without_samples_is_refused(name: str) -> None:
    with pytest.raises(InvalidData, match=f"{name} has no samples"):
        Case(Counting(), REQUEST, parts(**{name: 0}))
    missing = parts()
    del missing[name]
    with pytest.raises(InvalidData, match=f"{name} has no samples"):
        Case(Counting(), REQUEST, missing)


def test_what_a_case_lacks_is_named() -> None:
    case = Case(Counting(), REQUEST, parts(), cost=Cost(2.0, None))
    assert case.needed("cost").seconds == 2.0
    with pytest.raises(InvalidRequest, match=r"no retrained; give a model retrained .* \(retrained=\.\.\.\)"):
        case.needed("retrained")


@pytest.mark.parametrize(("classes", "expected"), [((2,), REQUEST), (None, Request.for_records(None, 3))])
def test_the_arguments_of_0_2_0_still_work(classes: tuple[int, ...] | None, expected: Request) -> None:
    model, other, samples = Counting(), Counting(), parts()
    with pytest.warns(DeprecationWarning, match=r"write Case\(model, Request\.for_classes\(classes, num_classes\)"):
        old = Case(model, 3, classes, samples, other, seed=4)  # type: ignore[arg-type, call-arg]
    assert old == Case(model, expected, samples, other, seed=4)
    assert (old.num_classes, old.classes) == (3, classes or ())
