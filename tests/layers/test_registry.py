"""Which kind a module is of, and what may be registered; kinds unlike the package's own fit the same protocol."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.errors import InvalidRequest, UnsupportedModel
from unsc.layers import (
    Call,
    Kind,
    Layer,
    Place,
    Rows,
    Strided,
    check_layers,
    find_layers,
    flat,
    kind_of,
    kinds,
    kinds_restored,
    names_of_kinds,
    observe,
    parameters_of,
    register,
)


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    torch.manual_seed(0)
    with kinds_restored():
        yield


class Plain(Kind[nn.Linear]):
    """A kind of linear layers that a test may register."""

    name = "Plain"

    def modules(self) -> tuple[type[nn.Linear], ...]:
        return (nn.Linear,)

    def layers(self, place: Place[nn.Linear]) -> Iterator[Layer | None]:
        module = place.module
        yield place.layer(place.view("weight"), None, outputs=module.out_features, inputs=module.in_features)

    def rows(self, call: Call[nn.Linear], role: str) -> Rows:
        return flat(call.first)

    def channels(self, module: nn.Linear) -> int:
        return -1


def observed(model: nn.Module, *args: Tensor, chunk_bytes: int = 1 << 20) -> tuple[dict[str, Tensor], object]:
    """Each layer's outputs by its rows, (groups, n, outputs), and what the model returned."""
    layers = find_layers(model).layers
    parameters = parameters_of(model, layers)
    found: dict[str, list[Tensor]] = {}

    def receive(layer: Layer, rows: Tensor) -> None:
        found.setdefault(layer.name, []).append(rows @ layer.matrix(parameters).mT)

    with observe(model, layers, receive, chunk_bytes=chunk_bytes):
        output = model(*args)
    return {name: torch.cat(parts, dim=1) for name, parts in found.items()}, output


def test_a_subclass_may_have_a_kind_of_its_own() -> None:
    """The nearest class decides, whatever the order in which kinds were registered."""

    class Double(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return 2 * F.linear(input, self.weight)

    class Doubles(Plain):
        name = "Double"

        def modules(self) -> tuple[type[nn.Linear], ...]:
            return (Double,)

        def rows(self, call: Call[nn.Linear], role: str) -> Rows:
            return flat(2 * call.first)

        def bias(self, module: nn.Linear, role: str) -> None:
            return None

    model, x = nn.Sequential(nn.Linear(3, 3), Double(3, 3)), torch.randn(4, 3)

    def failed() -> set[str]:
        return set(check_layers(model, find_layers(model).layers, lambda: model(x)))

    assert failed() == {"1"}
    register(Doubles)
    assert failed() == set()
    assert isinstance(kind_of(model[1]), Doubles) and not isinstance(kind_of(model[0]), Doubles)


def test_a_class_has_one_kind() -> None:
    with pytest.raises(InvalidRequest, match="'Linear' has Linear already"):
        register(Plain)
    assert "Plain" not in names_of_kinds()


def test_the_docs_list_every_kind() -> None:
    """A kind in its own file is known by being there; the page for readers must say so too."""
    page = (Path(__file__).parents[2] / "docs" / "method.md").read_text()
    assert [kind.name for kind in kinds() if f"| {kind.name} |" not in page] == []


def test_registering_a_name_again_replaces_it() -> None:
    """As when a module is loaded anew."""

    class Again(Plain):
        name = "Linear"

    register(Again)
    assert len([kind for kind in kinds() if kind.name == "Linear"]) == 1
    assert isinstance(kind_of(nn.Linear(2, 2)), Again)


def test_a_layer_of_an_unknown_kind_is_refused() -> None:
    """A description that outlives its kind, or is of another model, says what is missing."""
    (layer,) = find_layers(nn.Linear(2, 2)).layers
    with (
        pytest.raises(UnsupportedModel, match=r"LayerNorm is of no known kind; there are .*Linear"),
        observe(nn.LayerNorm(2), [layer], lambda _, __: None),
    ):
        pass


@dataclass(frozen=True)
class OneHot(Rows):
    """Rows that are made part by part out of the place of their only 1."""

    chosen: Tensor
    width: int

    @property
    def samples(self) -> int:
        return len(self.chosen)

    @property
    def positions(self) -> int:
        return 1

    @property
    def itemsize(self) -> int:
        return 4

    def part(self, start: int, stop: int) -> Tensor:
        return F.one_hot(self.chosen[start:stop], self.width).T[None].float()

    def drawn(self, chosen: Tensor) -> Tensor:
        return F.one_hot(self.chosen[chosen], self.width).T[None].float()


class Words(nn.Embedding):
    """A module of somebody else, whose kind comes before that of the class it inherits from."""


class Embeddings(Kind[Words]):
    name = "Words"

    def modules(self) -> tuple[type[Words], ...]:
        return (Words,)

    def layers(self, place: Place[Words]) -> Iterator[Layer | None]:
        inputs, outputs = place.module.weight.shape
        yield place.layer(place.view("weight"), None, outputs=outputs, inputs=inputs, transposed=True)

    def rows(self, call: Call[Words], role: str) -> Rows:
        return OneHot(call.first.flatten(), call.module.num_embeddings)

    def channels(self, module: Words) -> int:
        return -1


@pytest.mark.parametrize("chunk_bytes", [1, 60, 1 << 20])
def test_rows_need_not_be_there_before_they_are_asked_for(chunk_bytes: int) -> None:
    """An embedding is a linear map of one-hot rows, with its weight transposed."""
    register(Embeddings)
    model, x = Words(5, 3), torch.randint(5, (4, 2))
    found, output = observed(model, x, chunk_bytes=chunk_bytes)
    assert isinstance(output, Tensor)
    torch.testing.assert_close(found[""][0], output.reshape(8, 3))
    assert check_layers(model, find_layers(model).layers, lambda: model(x)) == {}


class Loop(nn.RNN):
    """As above."""


class Recurrent(Kind[Loop]):
    name = "Loop"

    def modules(self) -> tuple[type[Loop], ...]:
        return (Loop,)

    def layers(self, place: Place[Loop]) -> Iterator[Layer | None]:
        hidden = place.module.hidden_size
        for role, inputs in (("ih", place.module.input_size), ("hh", hidden)):
            weight, bias = place.view(f"weight_{role}_l0"), place.view(f"bias_{role}_l0")
            yield place.layer(weight, bias, outputs=hidden, inputs=inputs, role=role, leaf=role)

    def rows(self, call: Call[Loop], role: str) -> Rows:
        if role == "ih":
            return flat(call.first)
        states = call.output[0]
        return flat(torch.cat([torch.zeros_like(states[:1]), states[:-1]]))

    def channels(self, module: Loop) -> int:
        return -1

    def visible(self, role: str) -> bool:
        return False


def test_a_module_may_bring_several_layers_whose_outputs_are_not_seen() -> None:
    """A recurrent network's state is the nonlinearity of two products, over all time steps at once."""
    register(Recurrent)
    model, x = Loop(3, 4), torch.randn(6, 2, 3)
    found, (states, _) = observed(model, x)  # type: ignore[misc]
    torch.testing.assert_close(torch.tanh(found["ih"] + found["hh"])[0], states.reshape(-1, 4))
    assert find_layers(model).frozen == {}
    assert check_layers(model, find_layers(model).layers, lambda: model(x)) == {}


class Upwards(nn.ConvTranspose1d):
    """As above."""


class Transposed(Kind[Upwards]):
    name = "Upwards"

    def modules(self) -> tuple[type[Upwards], ...]:
        return (Upwards,)

    def layers(self, place: Place[Upwards]) -> Iterator[Layer | None]:
        module = place.module
        yield place.layer(
            place.view("weight"),
            place.view("bias"),
            outputs=module.out_channels,
            inputs=module.in_channels // module.groups * module.kernel_size[0],
            groups=module.groups,
            transposed=True,
        )

    def rows(self, call: Call[Upwards], role: str) -> Rows:
        """Windows, from the right, of the input with zeros around it."""
        size = call.module.kernel_size[0]
        seen = F.pad(call.first, (size - 1, size - 1)).unfold(2, size, 1).flip(-1)
        return Strided(seen.unflatten(1, (call.module.groups, -1)).permute(1, 2, 4, 0, 3), along=3)

    def channels(self, module: Upwards) -> int:
        return -2


def test_a_grouped_weight_may_be_stored_inputs_first() -> None:
    """A transposed convolution of stride 1, as it is stored; its matrix can be written and read back."""
    register(Transposed)
    model, x = Upwards(4, 6, 3, groups=2), torch.randn(2, 4, 5)
    found, output = observed(model, x)
    assert isinstance(output, Tensor)
    torch.testing.assert_close(found[""], output.reshape(2, 2, 3, 7).permute(1, 0, 3, 2).reshape(2, 14, 3))
    (layer,) = find_layers(model).layers
    assert check_layers(model, [layer], lambda: model(x)) == {}
    written = torch.randn(layer.groups, layer.outputs, layer.columns)
    layer.write(written, parameters_of(model, [layer]))
    assert torch.equal(layer.matrix(parameters_of(model, [layer])), written)
