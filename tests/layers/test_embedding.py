"""Embeddings are one-hot rows whose moment is never made; bags are rows of counts; padding stays."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.collect import collect
from unsc.layers import Layer, check_layers, find_layers, observe, parameters_of
from unsc.models import working_copy
from unsc.moments import Moment
from unsc.steps.curvature import LayerCurvature
from unsc.steps.subspace import leading

MANY = 5000
"""Tokens in a bag beyond which each is taken by itself."""


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def observed(model: nn.Module, *args: Any, **kwargs: Any) -> tuple[dict[str, Layer], dict[str, Tensor], Tensor]:
    """The layers by name, their rows (groups, n, columns), and what the model returned."""
    layers = {layer.name: layer for layer in find_layers(model).layers}
    found: dict[str, list[Tensor]] = {name: [] for name in layers}
    with observe(model, layers.values(), lambda layer, rows: found[layer.name].append(rows)):
        output = model(*args, **kwargs)
    return layers, {name: torch.cat(parts, dim=1) for name, parts in found.items()}, output


def moment_of(rows: Tensor) -> Moment:
    return Moment(rows.shape[0], rows.shape[2]).update(rows)


def one_hot(tokens: Tensor, size: int) -> Tensor:
    return F.one_hot(tokens.flatten(), size).double()


def test_the_moment_is_the_count_of_each_token() -> None:
    """Trace, quadratic form and eigenvalues are those of explicit one-hot rows."""
    model, tokens = nn.Embedding(9, 3, dtype=torch.float64), torch.randint(6, (4, 5))
    layers, rows, _ = observed(model, tokens)
    moment, explicit = moment_of(rows[""]), moment_of(one_hot(tokens, 9)[None])
    torch.testing.assert_close(moment.dense().flatten(), torch.bincount(tokens.flatten(), minlength=9).double())
    torch.testing.assert_close(moment.trace().sum(), explicit.trace()[0])
    change = torch.randn(9, 3, dtype=torch.float64)
    torch.testing.assert_close(moment.quadratic(change[..., None]).sum(), explicit.quadratic(change.T[None])[0])
    values, expected = moment.spectrum()[0].flatten(), explicit.spectrum()[0].flatten()
    torch.testing.assert_close(values.sort(descending=True).values, expected)
    assert layers[""].parameters == ("weight",)


def test_a_step_is_that_of_explicit_one_hot_rows() -> None:
    """Damped steps and their predicted cost agree with the (tokens, tokens) matrix that is never made."""
    model, tokens = nn.Embedding(9, 3, dtype=torch.float64), torch.randint(6, (4, 5))
    _, rows, _ = observed(model, tokens)
    ours = LayerCurvature(*moment_of(rows[""]).spectrum(), sensitivity=0.7, damping=0.2)
    theirs = LayerCurvature(*moment_of(one_hot(tokens, 9)[None]).spectrum(), sensitivity=0.7, damping=0.2)
    gradient = torch.randn(9, 3, dtype=torch.float64)
    step = ours.solve(gradient[..., None])
    torch.testing.assert_close(step[..., 0], theirs.solve(gradient.T[None])[0].T)
    assert ours.kl(step) == pytest.approx(theirs.kl(step[..., 0].T[None]))


def test_the_null_space_are_the_tokens_that_are_not_seen() -> None:
    model, tokens = nn.Embedding(9, 3, dtype=torch.float64), torch.tensor([[1, 1, 4], [4, 7, 1]])
    _, rows, _ = observed(model, tokens)
    basis, ranks = leading(moment_of(rows[""]), 0.97)
    assert ranks.tolist() == [0, 1, 0, 0, 1, 0, 0, 1, 0]
    change = torch.randn(9, 3, 1, dtype=torch.float64)
    free = change - change @ basis @ basis.mT
    assert not free[[1, 4, 7]].any() and torch.equal(free[[0, 2, 3, 5, 6, 8]], change[[0, 2, 3, 5, 6, 8]])


@pytest.mark.parametrize("shape", [(), (6,), (2, 3), (2, 3, 2)])
def test_an_embedding_of_any_shape_passes_the_check(shape: tuple[int, ...]) -> None:
    model, tokens = nn.Embedding(5, 3), torch.randint(5, shape)
    assert check_layers(model, find_layers(model).layers, lambda: model(tokens)) == {}
    assert check_layers(model, find_layers(model).layers, lambda: model(input=tokens)) == {}


def test_an_embedding_that_scales_is_flagged() -> None:
    class Scaled(nn.Embedding):
        def forward(self, input: Tensor) -> Tensor:
            return 3 * super().forward(input)

    model, tokens = Scaled(5, 3), torch.randint(5, (2, 3))
    failed = check_layers(model, find_layers(model).layers, lambda: model(tokens))
    assert "Scaled" in failed[""]


@pytest.mark.parametrize("padding", [0, 3, 8, -1])
@pytest.mark.parametrize("make", [nn.Embedding, nn.EmbeddingBag])
def test_padding_is_part_of_no_layer(make: type[nn.Embedding | nn.EmbeddingBag], padding: int) -> None:
    """Whatever is written, the padding vector stays, and all others are written."""
    model, tokens = make(9, 3, padding_idx=padding), torch.randint(9, (4, 5))
    layers, rows, _ = observed(model, tokens)
    before, parameters = model.weight.detach().clone(), parameters_of(model, layers.values())
    assert check_layers(model, layers.values(), lambda: model(tokens)) == {}
    for layer in layers.values():
        layer.write(layer.matrix(parameters) + 1, parameters)
    moved = model.weight.detach() - before
    assert not moved[padding].any()
    torch.testing.assert_close(moved.sum(), torch.tensor(8 * 3.0))
    expected = torch.bincount(tokens.flatten(), minlength=9).double()
    expected[padding] = 0
    if make is nn.Embedding:
        assert sum(moment_of(r).trace().sum().item() for r in rows.values()) == pytest.approx(expected.sum().item())


@st.composite
def bags(draw: st.DrawFn, size: int) -> tuple[nn.EmbeddingBag, dict[str, Tensor], Tensor]:
    """A bag module, the arguments of a call, and the explicit counts (bags, tokens), made by loops."""
    torch.manual_seed(draw(st.integers(0, 1000)))
    mode, padding = draw(st.sampled_from(["sum", "mean"])), draw(st.sampled_from([None, 0, 2, size - 1]))
    last, matrix = draw(st.booleans()), draw(st.booleans())
    weighted = mode == "sum" and draw(st.booleans())
    module = nn.EmbeddingBag(
        size, 3, mode=mode, padding_idx=padding, include_last_offset=last and not matrix, dtype=torch.float64
    )
    lengths = [3, 3] if matrix else draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    tokens = torch.randint(min(size, 5), (sum(lengths),))
    weights = torch.randn(len(tokens), dtype=torch.float64) if weighted else torch.ones(len(tokens)).double()
    counts, at = torch.zeros(len(lengths), size, dtype=torch.float64), 0
    for bag, length in enumerate(lengths):
        own = [i for i in range(at, at + length) if padding is None or tokens[i] != padding]
        for i in own:
            counts[bag, tokens[i]] += weights[i] / (len(own) if mode == "mean" else 1)
        at += length
    arguments = {"input": tokens}
    if matrix:
        arguments["input"] = tokens.reshape(2, 3)
    else:
        ends = torch.tensor([0, *lengths]).cumsum(0)
        arguments["offsets"] = ends if last else ends[:-1]
    if weighted:
        arguments["per_sample_weights"] = weights.reshape(arguments["input"].shape)
    return module, arguments, counts


def columns_of(module: nn.EmbeddingBag) -> list[int]:
    return [v for v in range(module.num_embeddings) if v != module.padding_idx]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(bags(size=6))
def test_rows_of_bags_are_their_counts(case: tuple[nn.EmbeddingBag, dict[str, Tensor], Tensor]) -> None:
    """With offsets or without, weighted or not, empty bags and padding included; and they give the output."""
    module, arguments, counts = case
    layers, rows, output = observed(module, **arguments)
    together = torch.cat([rows[name][0] for name in layers], dim=1)
    torch.testing.assert_close(together, counts[:, columns_of(module)])
    torch.testing.assert_close(together @ module.weight.detach()[columns_of(module)], output)
    assert check_layers(module, layers.values(), lambda: module(**arguments)) == {}


@settings(max_examples=30, deadline=None, derandomize=True)
@given(bags(size=MANY))
def test_many_tokens_are_bounded_each_by_itself(case: tuple[nn.EmbeddingBag, dict[str, Tensor], Tensor]) -> None:
    """No change costs more than the diagonal says; tokens that are in no bag are free; one token a bag is exact."""
    module, arguments, counts = case
    layers, rows, _ = observed(module, **arguments)
    assert check_layers(module, layers.values(), lambda: module(**arguments)) == {}
    diagonal = torch.cat([moment_of(rows[name]).dense().flatten() for name in layers])
    change = torch.randn(MANY, 3, dtype=torch.float64)
    cost = (diagonal[:, None] * change[columns_of(module)].square()).sum()
    assert cost >= (counts @ change).square().sum() * (1 - 1e-9)
    used = counts[:, columns_of(module)].ne(0).any(dim=0)
    assert (diagonal[used] > 0).all()
    if (counts.ne(0).sum(dim=1) <= 1).all() and "per_sample_weights" not in arguments:
        torch.testing.assert_close(cost, (counts @ change).square().sum())


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (nn.EmbeddingBag(5, 3, mode="max"), "not linear"),
        (nn.Embedding(5, 3, max_norm=1.0), "max_norm=1.0"),
        (nn.EmbeddingBag(5, 3, scale_grad_by_freq=True), "scale_grad_by_freq"),
    ],
)
def test_what_cannot_be_edited_is_frozen_with_the_reason(module: nn.Module, reason: str) -> None:
    found = find_layers(nn.Sequential(module, nn.Linear(3, 2)))
    assert [layer.name for layer in found.layers] == ["1"]
    assert reason in found.frozen["0.weight"]


@pytest.mark.parametrize("make", [nn.Embedding, nn.EmbeddingBag])
def test_work_is_done_with_dense_gradients(make: type[nn.Embedding | nn.EmbeddingBag]) -> None:
    """The user's own module keeps what it was told."""
    model = make(5, 3, sparse=True)
    working = working_copy(model)
    working(torch.randint(5, (2, 3))).sum().backward()
    assert not next(working.parameters()).grad.is_sparse  # type: ignore[union-attr]
    assert model.sparse


def test_two_tables_that_share_their_weight_are_one_layer() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Embedding(5, 3), nn.Embedding(5, 3)
            self.other.weight = self.one.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.one(x[:, 0]) + self.other(x[:, 1])

    model, tokens = Both(), torch.randint(5, (6, 2))
    layers, rows, _ = observed(model, tokens)
    assert layers.keys() == {"one"}
    counted = moment_of(rows["one"]).dense().flatten()
    torch.testing.assert_close(counted, torch.bincount(tokens.flatten(), minlength=5).double())


def test_a_large_vocabulary_needs_no_more_memory_than_its_table() -> None:
    """Moments, curvature and null space of 30,000 tokens hold a number for each; a dense moment would be 7 GB."""
    size = 30_000
    model = nn.Sequential(nn.Embedding(size, 8, padding_idx=0), nn.Flatten(), nn.Linear(160, 3))
    batches = [Batch(torch.randint(1, size, (16, 20)), torch.zeros(16, dtype=torch.long)) for _ in range(2)]
    (layer,) = (x for x in find_layers(model).layers if x.name == "0")
    moment = collect(model, [layer], batches)["0"]
    seen = torch.cat([batch.inputs.flatten() for batch in batches])
    assert moment.trace().sum().item() == pytest.approx(len(seen))
    values, vectors = moment.spectrum()
    basis, ranks = leading(moment, 0.97)
    assert int(ranks.sum()) == len(seen.unique())
    assert max(values.numel(), vectors.numel(), basis.numel(), moment.dense().numel()) == size - 1
    step = LayerCurvature(values.float(), vectors.float(), 1.0, 0.1).solve(layer.matrix(parameters_of(model, [layer])))
    assert step.shape == (size - 1, 8, 1)
