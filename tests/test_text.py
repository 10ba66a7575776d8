"""From end to end: classifiers of token sequences forget a class in their embeddings and recurrent layers too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import unsc
from unsc.layers import find_layers

CLASSES, OWN, SHARED, LENGTH = 4, 6, 10, 8
VOCABULARY = 1 + SHARED + CLASSES * OWN


class Sequences(nn.Module):
    """Embedding, a recurrent layer, and a head on its last output."""

    def __init__(self, recurrent: type[nn.LSTM | nn.GRU], *, size: int = VOCABULARY) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size, 12, padding_idx=0)
        self.recurrent = recurrent(12, 16, batch_first=True)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.recurrent(self.tokens(x))[0][:, -1])


class Bags(nn.Module):
    """An embedding bag and two linear layers."""

    def __init__(self, *, size: int = VOCABULARY, sparse: bool = False) -> None:
        super().__init__()
        self.tokens = nn.EmbeddingBag(size, 12, padding_idx=0, sparse=sparse)
        self.hidden, self.head = nn.Linear(12, 16), nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.hidden(self.tokens(x)).tanh())


MODELS: dict[str, Callable[[], nn.Module]] = {
    "LSTM": lambda: Sequences(nn.LSTM),
    "GRU": lambda: Sequences(nn.GRU),
    "bag": Bags,
    "bag, sparse": lambda: Bags(sparse=True),
    "bag of many tokens": lambda: Bags(size=5000),
}


def texts(n: int, seed: int) -> TensorDataset:
    """Sequences that begin with padding; a third of their tokens are their class's own, the others are shared."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % CLASSES
    own = 1 + SHARED + labels[:, None] * OWN + torch.randint(OWN, (n, LENGTH), generator=generator)
    common = 1 + torch.randint(SHARED, (n, LENGTH), generator=generator)
    tokens = torch.where(torch.rand(n, LENGTH, generator=generator) < 0.4, own, common)
    tokens[:, -1] = own[:, -1]
    padding = torch.randint(3, (n, 1), generator=generator)
    return TensorDataset(tokens.masked_fill(torch.arange(LENGTH) < padding, 0), labels)


def trained(make: Callable[[], nn.Module], data: TensorDataset) -> nn.Module:
    torch.manual_seed(0)
    model = make()
    inputs, labels = data.tensors
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, lr=0.02)
    for _ in range(40):
        loss = nn.functional.cross_entropy(model(inputs), labels)
        for p, g in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            p.grad = g.to_dense()
        optimizer.step()
    return model


def accuracy(model: nn.Module, data: TensorDataset, *, of: Callable[[Tensor], Tensor]) -> float:
    inputs, labels = data.tensors
    chosen = of(labels)
    with torch.no_grad():
        return (model(inputs[chosen]).argmax(dim=1) == labels[chosen]).float().mean().item()


@pytest.mark.parametrize("step", ["budgeted", "paper"])
@pytest.mark.parametrize("name", MODELS)
def test_a_class_of_texts_is_forgotten(name: str, step: str) -> None:
    """Held-out texts of the class are no longer known, others are; all layers move, and padding does not."""
    train, test = texts(400, seed=0), texts(200, seed=1)
    model = trained(MODELS[name], train)
    assert accuracy(model, test, of=lambda y: y >= 0) > 0.95
    options = {"lr": 0.5, "max_passes": 60} if step == "paper" else {}
    result = unsc.forget(model, train, classes=[2], step=step, **options)
    assert result.ok and not result.frozen
    assert accuracy(result.model, test, of=lambda y: y == 2) <= 0.02
    assert accuracy(result.model, test, of=lambda y: y != 2) > 0.95
    before, after = dict(model.named_parameters()), dict(result.model.named_parameters())
    for layer in find_layers(model).layers:
        assert not torch.equal(layer.matrix(before), layer.matrix(after)), layer.name
    assert torch.equal(before["tokens.weight"][0], after["tokens.weight"][0])
    # Words of one class alone cost nothing to move: where a bag has them, later layers hardly need to.
    fewest = 1 if step == "budgeted" and name == "bag of many tokens" else 3
    assert fewest <= result.metrics.edited.modules_edited <= result.metrics.edited.modules == 3
    assert not result.metrics.edited.head_only


def test_tokens_that_stay_do_not_move_in_the_null_space() -> None:
    """With the paper's step, only vectors of tokens that no retained text has are changed."""
    train = texts(400, seed=0)
    model = trained(MODELS["LSTM"], train)
    result = unsc.forget(model, train, classes=[2], step="paper", lr=0.5)
    inputs, labels = train.tensors
    stay = inputs[labels != 2].unique()
    moved = dict(result.model.named_parameters())["tokens.weight"] - dict(model.named_parameters())["tokens.weight"]
    assert moved[stay].abs().max() < 1e-6
    own = 1 + SHARED + 2 * OWN + torch.arange(OWN)
    assert (moved[own].norm(dim=1) > 1e-2).all()


def test_a_vocabulary_of_thirty_thousand_is_no_trouble() -> None:
    """Neither for an embedding nor for a bag: what is kept has the size of the table."""
    train = texts(400, seed=0)
    for make in (lambda: Bags(size=30_000), lambda: Sequences(nn.GRU, size=30_000)):
        model = trained(make, train)
        result = unsc.forget(model, train, classes=[2])
        assert result.ok
        unseen = dict(result.model.named_parameters())["tokens.weight"][VOCABULARY:]
        assert torch.equal(unseen, dict(model.named_parameters())["tokens.weight"][VOCABULARY:])
