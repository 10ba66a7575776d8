"""The inputs of layers, as a forward pass by hand has them, and the head in both of its meanings."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.errors import UnsupportedModel
from unsc.features import Head, find_head, find_last_linear, head_inputs, inputs_of_layers, layer_inputs, pooled


def hooks_of(model: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


class Wrapped(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.unused = nn.Linear(3, 3)
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x) - 1


def batch(*shape: int) -> Batch:
    generator = torch.Generator().manual_seed(0)
    return Batch(torch.randn(*shape, generator=generator), torch.zeros(shape[0], dtype=torch.int64))


def test_inputs_are_those_of_a_forward_pass(digits_model: nn.Module) -> None:
    """Of the digits CNN: 64 and 256 values are kept whole, the convolutions' many positions are averaged."""
    samples = batch(10, 1, 8, 8)
    found = layer_inputs(digits_model, samples, size=4)
    assert list(found) == ["0", "3", "7", "12", "14"]
    torch.testing.assert_close(found["0"], samples.inputs.flatten(1))
    with torch.no_grad():
        assert isinstance(digits_model, nn.Sequential)
        torch.testing.assert_close(found["3"], digits_model[:3](samples.inputs).mean(dim=(2, 3)))
        torch.testing.assert_close(found["7"], digits_model[:7](samples.inputs).mean(dim=(2, 3)))
        torch.testing.assert_close(found["12"], digits_model[:12](samples.inputs))
        torch.testing.assert_close(found["14"], digits_model[:14](samples.inputs))


def test_a_wrapped_network_has_the_same_inputs_in_the_same_order(digits_model: nn.Module) -> None:
    samples = batch(5, 1, 8, 8)
    plain, wrapped = layer_inputs(digits_model, samples), layer_inputs(Wrapped(digits_model), samples)
    assert list(wrapped) == [f"model.{name}" for name in plain]
    assert all(map(torch.equal, plain.values(), wrapped.values()))


def test_tokens_are_averaged_over_their_positions() -> None:
    """For a linear layer the last dimension are the channels, for a convolution the second."""
    x = torch.randn(4, 100, 5)
    torch.testing.assert_close(pooled(x, channels=-1), x.mean(dim=1))
    torch.testing.assert_close(pooled(x, channels=1), x.mean(dim=2))
    assert torch.equal(pooled(x[:, :50], channels=-1), x[:, :50].flatten(1))
    wide = torch.randn(4, 1000)
    assert torch.equal(pooled(wide, channels=-1), wide)


def test_a_layer_stands_where_it_was_run_last() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shared, self.other = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.shared(self.other(input=self.shared(x)))

    model, samples = Twice(), batch(6, 3)
    found = layer_inputs(model, samples)
    assert list(found) == ["other", "shared"]
    with torch.no_grad():
        torch.testing.assert_close(found["shared"], model.other(model.shared(samples.inputs)))


def test_inputs_without_samples_are_left_out() -> None:
    class Mixed(nn.Module):
        """One layer sees the patches of all samples as rows, one a single row that belongs to none."""

        def __init__(self) -> None:
            super().__init__()
            self.patches, self.constant, self.last = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(6, 2)

        def forward(self, x: Tensor) -> Tensor:
            patches = self.patches(x.reshape(-1, 2)).reshape(len(x), -1)
            return self.last(patches) + self.constant(torch.ones(1, 2))

    assert list(layer_inputs(Mixed(), batch(4, 6))) == ["last"]
    # In pieces of 3 the last is a single sample: the single row must not pass for it.
    assert list(layer_inputs(Mixed(), batch(4, 6), size=3)) == ["last"]


def test_a_model_without_layers_is_refused() -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x: Tensor) -> Tensor:
            return self.scale * x

    with pytest.raises(UnsupportedModel, match="no layer on a batch"):
        layer_inputs(Scale(), batch(3, 2))


def test_hooks_are_gone_after_an_error() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(RuntimeError), inputs_of_layers(model):
        model(torch.zeros(1, 3))
    assert hooks_of(model) == 0
    model = model.train()
    layer_inputs(model, batch(2, 2))
    assert model.training and hooks_of(model) == 0


class Branches(nn.Module):
    """Two linear layers with as many outputs as classes; the second one's are returned, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.after = nn.Linear(4, 3), nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        logits = self.second(torch.relu(self.first(x)))
        return {"logits": logits, "also": self.after(logits)}


def test_the_head_is_the_layer_that_returns_the_logits() -> None:
    """The layer after it has as many outputs; its features are what it was given."""
    torch.manual_seed(0)
    model, samples = Branches(), batch(5, 4)
    head = find_head(model, samples)
    assert head == Head("second", model.second)
    (found,) = head_inputs(model, head, [samples])
    torch.testing.assert_close(found.inputs, torch.relu(model.first(samples.inputs)).detach())
    assert hooks_of(model) == 0


def test_the_head_is_found_by_its_output() -> None:
    """Not by its place: another layer of the same width comes after it in the list of modules."""

    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head, self.early = nn.Linear(3, 3), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> SimpleNamespace:
            return SimpleNamespace(logits=self.head(self.early(x)))

    model = Odd()
    assert find_head(model, batch(2, 4)).layer is model.head


def test_a_model_whose_logits_come_from_no_linear_layer_has_no_head() -> None:
    """One that is masked afterwards still has a last linear layer, for those who want its features alone."""
    linear = nn.Linear(4, 3)
    model = nn.Sequential(linear, nn.Tanh())
    with pytest.raises(UnsupportedModel, match="no Linear layer of this model returns its logits"):
        find_head(model, batch(5, 4))
    assert find_last_linear(model, batch(5, 4), 3) == Head("0", linear)


def test_the_last_linear_layer_is_the_last_that_is_run() -> None:
    class Odd(nn.Module):
        """The head is neither the last that was made nor the last that is run."""

        def __init__(self) -> None:
            super().__init__()
            self.head, self.hidden, self.idle = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
            self.aside = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            logits = self.head(self.hidden(x))
            self.aside(x)
            return logits

    model, samples = Odd(), batch(2, 4)
    assert find_last_linear(model, samples, 4) == Head("head", model.head)
    with pytest.raises(UnsupportedModel, match="no Linear with 5 outputs"):
        find_last_linear(model, samples, 5)


def test_inputs_keep_their_gradients() -> None:
    """What a layer is given can be trained through, as a unit beside the head needs."""
    model, samples = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)), batch(2, 4)
    with inputs_of_layers(model, ["2"]) as seen:
        model(samples.inputs)
    assert list(seen) == ["2"]
    seen["2"].sum().backward()
    assert model[0].weight.grad is not None and model[2].weight.grad is None


class Overwritten(nn.Module):
    """Logits that are changed where they are, after the last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x).mul_(5)


def test_a_layer_whose_outputs_are_overwritten_is_no_head() -> None:
    """They are in the memory of the logits, but they are not what the layer gave."""
    with pytest.raises(UnsupportedModel, match="no Linear layer"):
        find_head(Overwritten(), batch(6, 3))
