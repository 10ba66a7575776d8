"""The contributor's example: a kind of layer in one file is found, streamed, checked, edited, and gone afterwards."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.errors import UnsupportedModel
from unsc.layers import check_layers, find_layers, kinds_restored, observe, parameters_of
from unsc.models import editable_layers

EXAMPLE = Path(__file__).parents[2] / "examples" / "contributing" / "layer_kind.py"


@pytest.fixture
def known() -> Iterator[None]:
    """The example's kind, while a test lasts."""
    with kinds_restored():
        runpy.run_path(str(EXAMPLE))
        yield


class Pair(nn.Module):
    """A classifier of the products of two halves of its input."""

    def __init__(self, form: type[nn.Bilinear] = nn.Bilinear) -> None:
        super().__init__()
        self.form = form(3, 2, 4, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        return self.form(x[..., :3], input2=x[..., 3:])


@pytest.fixture
def model() -> Pair:
    torch.manual_seed(0)
    return Pair()


def samples(n: int) -> Batch:
    return Batch(torch.randn(n, 5, dtype=torch.float64), torch.arange(n) % 4)


@pytest.mark.usefixtures("known")
def test_its_layer_is_found_and_covers_all_parameters(model: Pair) -> None:
    found = find_layers(model)
    (layer,) = found.layers
    assert (layer.name, layer.outputs, layer.inputs, layer.columns) == ("form", 4, 6, 7)
    assert layer.parameters == ("form.weight", "form.bias") and found.frozen == {}


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("chunk_bytes", [1, 1 << 20])
def test_its_rows_times_the_matrix_are_the_output(model: Pair, chunk_bytes: int) -> None:
    (layer,) = find_layers(model).layers
    chunks: list[Tensor] = []
    with observe(model, [layer], lambda _, rows: chunks.append(rows), chunk_bytes=chunk_bytes):
        output = model(torch.randn(5, 3, 5, dtype=torch.float64))
    assert len(chunks) == (15 if chunk_bytes == 1 else 1)
    rows = torch.cat(chunks, dim=1)
    torch.testing.assert_close((rows @ layer.matrix(parameters_of(model, [layer])).mT)[0], output.reshape(15, 4))


@pytest.mark.usefixtures("known")
def test_what_does_something_else_with_its_weight_is_frozen(model: Pair) -> None:
    class Doubled(nn.Bilinear):
        def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
            return nn.functional.bilinear(input1, input2, 2 * self.weight, self.bias)

    batch = samples(4)
    assert check_layers(model, find_layers(model).layers, lambda: model(batch.inputs)) == {}
    with pytest.raises(UnsupportedModel, match=r"Doubled does not return rows @ W\.T"):
        editable_layers(Pair(Doubled), batch)


@pytest.mark.usefixtures("known")
def test_an_edit_in_the_null_space_of_its_rows_keeps_their_outputs(model: Pair) -> None:
    """Outputs of the samples whose rows the edit is orthogonal to stay; others change."""
    retain, forget = samples(3), samples(3)
    (layer,), _ = editable_layers(model, retain)
    rows: list[Tensor] = []
    with observe(model, [layer], lambda _, x: rows.append(x)):
        before = model(retain.inputs), model(forget.inputs)
    retained = rows[0][0]
    direction = torch.randn(1, 4, 7, dtype=torch.float64)
    direction -= direction @ torch.linalg.pinv(retained) @ retained
    parameters = parameters_of(model, [layer])
    layer.write(layer.matrix(parameters) + direction, parameters)
    torch.testing.assert_close(model(retain.inputs), before[0])
    assert (model(forget.inputs) - before[1]).abs().min() > 1e-3


def test_without_the_file_it_is_unknown(model: Pair) -> None:
    """Nothing of it is left in the package."""
    with kinds_restored():
        runpy.run_path(str(EXAMPLE))
        assert find_layers(model).layers
    found = find_layers(model)
    assert found.layers == ()
    assert found.frozen["form.weight"] == "Bilinear.weight has no null space"
    with pytest.raises(UnsupportedModel, match="Linear"):
        editable_layers(model, samples(4))
