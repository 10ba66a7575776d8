"""Running statistics are what evaluation mode meets."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from unsc.bench.networks import AlexNet
from unsc.bench.training.batch_norm import dropout_shifts_batch_norm, reestimate_batch_norm
from unsc.errors import InvalidData


def test_one_layer_by_hand() -> None:
    """Of all images in one batch: mean and unbiased variance; of equal batches: the batches' mean statistics."""
    linear, norm = nn.Linear(3, 2), nn.BatchNorm1d(2)
    model = nn.Sequential(linear, norm)
    norm.get_buffer("running_mean").fill_(9.0)
    x = torch.randn(60, 3)
    out = linear(x).detach()
    reestimate_batch_norm(model, x)
    assert torch.allclose(norm.get_buffer("running_mean"), out.mean(dim=0), atol=1e-6)
    assert torch.allclose(norm.get_buffer("running_var"), out.var(dim=0), atol=1e-6)

    reestimate_batch_norm(model, x, batch_size=20, seed=3)
    drawn = out[torch.randperm(60, generator=torch.Generator().manual_seed(3))].reshape(3, 20, 2)
    assert torch.allclose(norm.get_buffer("running_mean"), out.mean(dim=0), atol=1e-6)
    assert torch.allclose(norm.get_buffer("running_var"), drawn.var(dim=1).mean(dim=0), atol=1e-6)


def test_dropout_is_off_and_all_else_stays() -> None:
    """A variance that dropout would have made larger; weights, modes and momentum as before."""
    norm = nn.BatchNorm1d(4, momentum=0.3)
    model = nn.Sequential(nn.Dropout(0.5), norm, nn.Linear(4, 2))
    model.train()
    model[2].eval()
    before = {name: t.clone() for name, t in model.named_parameters()}
    x = torch.randn(500, 4) + 5
    reestimate_batch_norm(model, x, batch_size=500)
    assert torch.allclose(norm.get_buffer("running_var"), x.var(dim=0), atol=1e-4)
    assert all(torch.equal(t, before[name]) for name, t in model.named_parameters())
    assert [m.training for m in model] == [True, True, False]
    assert norm.momentum == 0.3


def test_samples_are_counted_and_batches_alike() -> None:
    """Nine in batches of at most four are three batches of three, and count the same."""
    norm = nn.BatchNorm1d(2)
    model = nn.Sequential(norm)
    x = torch.randn(9, 2)
    reestimate_batch_norm(model, x, batch_size=4)
    drawn = x[torch.randperm(9, generator=torch.Generator().manual_seed(0))]
    assert torch.allclose(norm.get_buffer("running_mean"), x.mean(dim=0), atol=1e-6)
    assert torch.allclose(norm.get_buffer("running_var"), drawn.reshape(3, 3, 2).var(dim=1).mean(dim=0), atol=1e-6)
    reestimate_batch_norm(model, x, samples=4)
    assert torch.allclose(norm.get_buffer("running_mean"), drawn[:4].mean(dim=0), atol=1e-6)
    with pytest.raises(InvalidData, match="at least 2 images; there are 1"):
        reestimate_batch_norm(model, x[:1])


def test_who_needs_it() -> None:
    assert dropout_shifts_batch_norm(AlexNet(width=0.1, dropout=0.5))
    assert not dropout_shifts_batch_norm(AlexNet(width=0.1))
    assert not dropout_shifts_batch_norm(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)))
