"""What a model returns is checked to be logits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from blobs import blobs, learned, network
from torch import Tensor, nn

import unsc
from unsc.batches import Batch
from unsc.errors import UnsupportedModel
from unsc.logits import check_logits, logits_of
from unsc.models import count_classes, working_copy


class Returning(nn.Module):
    """A model that returns what it was given to return, and keeps what it was called with."""

    def __init__(self, output: Any) -> None:
        super().__init__()
        self.output = output
        self.called: tuple[tuple, dict] = ((), {})

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        self.called = (args, kwargs)
        return self.output


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


X, Y = torch.randn(4, 3), torch.tensor([2, 0, 1, 0])


@pytest.mark.parametrize("wrap", [lambda t: t, lambda t: {"logits": t}, lambda t: SimpleNamespace(logits=t)])
def test_logits_come_plain_or_inside_an_object(wrap: Any) -> None:
    """A tensor, a dict with logits and an object with logits are the same scores."""
    scores = torch.randn(4, 3)
    assert logits_of(Returning(wrap(scores)), Batch(X, Y)) is scores


def test_inputs_are_passed_as_their_form_says() -> None:
    """A tensor is the only argument, a tuple is passed by position, a dict by name."""
    model = Returning(torch.randn(4, 3))
    logits_of(model, Batch(X, Y))
    assert model.called == ((X,), {})
    logits_of(model, Batch((X, Y), Y))
    assert model.called == ((X, Y), {})
    logits_of(model, Batch({"x": X}, Y))
    assert model.called == ((), {"x": X})


@pytest.mark.parametrize(
    ("output", "named"),
    [
        (torch.randn(3), "(3,)"),
        (torch.randn(4, 3, 5), "(4, 3, 5)"),
        (torch.randn(3, 4), "(3, 4)"),
        ((torch.randn(4, 3), None), "tuple"),
        ({"scores": torch.randn(4, 3)}, "dict"),
        (None, "NoneType"),
    ],
)
def test_what_is_not_logits_is_refused(output: Any, named: str) -> None:
    """The message tells which shape or type the model returned."""
    with pytest.raises(UnsupportedModel) as caught:
        logits_of(Returning(output), Batch(X, Y))
    assert named in str(caught.value)
    assert "4 samples" in str(caught.value)


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        (torch.randn(4, 3).softmax(dim=1), "probabilities"),
        (torch.eye(3), "probabilities"),
        (torch.randn(4, 0), "no output"),
        (torch.tensor([[0.0, float("nan")]]), "NaN"),
        (torch.tensor([[0.0, float("-inf")]]), "Inf"),
    ],
)
def test_scores_that_cannot_be_logits_are_refused(scores: Tensor, reason: str) -> None:
    """Probabilities, a single output and values that are not finite."""
    with pytest.raises(UnsupportedModel, match=reason):
        check_logits(scores)


@pytest.mark.parametrize("scores", [torch.randn(4, 3), torch.randn(4, 3).log_softmax(dim=1), torch.zeros(4, 3)])
def test_logits_are_accepted(scores: Tensor) -> None:
    """Any finite scores that are not probabilities, log-probabilities among them."""
    check_logits(scores)


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_one_output_decides_between_two_classes(shape: tuple[int, ...]) -> None:
    """Its softmax over two classes is its sigmoid."""
    scores = torch.randn(4)
    logits = logits_of(Returning(scores.reshape(shape)), Batch(X, Y))
    torch.testing.assert_close(logits.softmax(dim=1)[:, 1], scores.sigmoid())


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ((None, torch.randn(4, 3)), r"lambda output: output\[1\]"),
        ({"loss": torch.tensor(1.0), "scores": torch.randn(4, 3)}, r"lambda output: output\['scores'\]"),
        (torch.randn(4, 3, 2), r"with logits=\.\.\., a function of the output"),
    ],
)
def test_the_message_points_at_the_logits(output: Any, said: str) -> None:
    with pytest.raises(UnsupportedModel, match=said):
        logits_of(Returning(output), Batch(X, Y))


class Ending(nn.Module):
    """A network whose last step is a function."""

    def __init__(self, last: Any, outputs: int = 4) -> None:
        super().__init__()
        self.body, self.last = network(outputs), last

    def forward(self, x: Tensor) -> Any:
        return self.last(self.body(x))


def by_hand(z: Tensor) -> Tensor:
    return 1 / (1 + (-z).exp())


@pytest.mark.parametrize("last", [torch.sigmoid, nn.Sigmoid(), by_hand, torch.nn.functional.hardsigmoid])
@pytest.mark.parametrize("outputs", [1, 4])
def test_probabilities_by_a_sigmoid_are_refused(last: Any, outputs: int) -> None:
    """Unless the user says what the logits are, or that these are."""
    data, model = blobs(), Ending(last, outputs)
    classes = [1] if outputs == 1 else [3]
    with pytest.raises(UnsupportedModel, match=r"from 0 to 1.*logits=torch\.logit.*logits=lambda z: z"):
        unsc.forget(model, data, classes=classes)
    few = Batch(data.tensors[0][::40], data.tensors[1][::40])
    assert count_classes(working_copy(model, logits=torch.logit), few) == max(outputs, 2)
    assert count_classes(working_copy(model, logits=lambda z: z), few) == max(outputs, 2)


def test_small_outputs_of_a_linear_layer_are_logits() -> None:
    """They are from 0 to 1 here by chance; nothing bounds them."""
    model = network(2)
    with torch.no_grad():
        model.get_parameter("2.weight").mul_(1e-3)
        model.get_parameter("2.bias").fill_(0.3)
    assert count_classes(working_copy(model), Batch(torch.randn(4, 6), Y)) == 2


@pytest.mark.parametrize(
    ("last", "logits"),
    [
        (lambda z: (z, z.detach()), lambda output: output[0]),
        (lambda z: {"scores": z, "loss": 0}, lambda output: output["scores"]),
        (lambda z: z[:, None], lambda output: output[:, 0]),
        (lambda z: z.softmax(dim=1), torch.log),
        (torch.sigmoid, torch.logit),
    ],
    ids=["tuple", "dict", "shape", "softmax", "sigmoid"],
)
def test_logits_are_found_in_any_output(last: Any, logits: Any) -> None:
    """The same class is forgotten as if the network returned its logits, and the result returns what it did."""
    data, model = blobs(), Ending(lambda z: z)
    learned(model, data)
    model.last = last
    result = unsc.forget(model, data, classes=[3], logits=logits)
    assert result.ok
    assert not result.model._forward_hooks
    x, y = data.tensors
    after = unsc.evaluate(result.model, data, classes=[3], logits=logits)
    assert (after.forget_test_acc, after.retain_test_acc) == (0, 100)
    assert type(result.model(x)) is type(model(x))
    assert torch.equal(logits(result.model(x)).argmax(dim=1)[y != 3], y[y != 3])


def test_logits_that_cannot_be_taken_are_said_to_be() -> None:
    with pytest.raises(UnsupportedModel, match=r"a tuple \(IndexError"):
        unsc.forget(Ending(lambda z: (z,)), blobs(), classes=[3], logits=lambda output: output[1])
    with pytest.raises(UnsupportedModel, match="returned a int"):
        unsc.forget(Ending(lambda z: (z,)), blobs(), classes=[3], logits=len)  # type: ignore[arg-type]


@pytest.mark.parametrize("squeezed", [True, False])
def test_a_binary_network_with_one_output_forgets(squeezed: bool) -> None:
    """After that it says the other class of everything."""
    data = blobs(classes=2)
    model = Ending((lambda z: z[:, 0]) if squeezed else (lambda z: z), 1)
    learned(model, data, lambda z, y: nn.functional.binary_cross_entropy_with_logits(z.flatten(), y.float()))
    before = unsc.evaluate(model, data, classes=[1])
    assert before.class_acc == {0: 100, 1: 100}
    result = unsc.forget(model, data, classes=[1])
    assert result.request.num_classes == 2
    assert unsc.evaluate(result.model, data, classes=[1]).forget_test_acc == 0
    assert result.model(data.tensors[0]).shape == model(data.tensors[0]).shape
