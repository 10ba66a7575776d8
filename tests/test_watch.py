"""Retained predictions are watched: divergence and drift against explicit formulas."""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.drift import drift
from unsc.errors import UnsupportedModel
from unsc.layers import find_layers
from unsc.watch import Estimate, Watch, softening

ALL = torch.ones(4, dtype=torch.bool)


def network(seed: int = 0, scale: float = 1.0) -> nn.Module:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4))
    with torch.no_grad():
        model.get_parameter("2.weight").mul_(scale)
    return model.eval()


def batches(sizes: tuple[int, ...] = (7, 3)) -> list[Batch]:
    g = torch.Generator().manual_seed(0)
    return [Batch(torch.randn(n, 5, generator=g), torch.zeros(n, dtype=torch.long)) for n in sizes]


def probabilities(model: nn.Module, temperature: float = 1.0, kept: Tensor = ALL) -> Tensor:
    with torch.no_grad():
        return (torch.cat([model(b.inputs) for b in batches()])[:, kept] / temperature).double().softmax(dim=1)


def explicit_kl(p: Tensor, q: Tensor) -> float:
    return F.kl_div(q.log(), p, reduction="batchmean").item()


def test_a_network_does_not_diverge_from_itself() -> None:
    assert Watch(network(), batches(), ALL).kl(network()) == 0


def test_divergence_is_the_mean_kl() -> None:
    """From the original to the current network, over all samples of unequal batches."""
    watch = Watch(network(), batches(), ALL)
    assert watch.temperature == 1
    expected = explicit_kl(probabilities(network()), probabilities(network(1)))
    assert watch.kl(network(1)) == pytest.approx(expected, rel=1e-5)
    assert expected != pytest.approx(explicit_kl(probabilities(network(1)), probabilities(network())), rel=1e-3)


@pytest.mark.parametrize("sizes", [(7, 3), (5, 40, 20), (64,)])
def test_what_is_known_to_be_said_is_not_asked_again(sizes: tuple[int, ...]) -> None:
    """It stays with its samples, also where a batch is parted for quick looks."""
    known = torch.cat([network()(b.inputs).detach() for b in batches(sizes)])
    told, asked = Watch(network(1), batches(sizes), ALL, said=known), Watch(network(), batches(sizes), ALL)
    torch.testing.assert_close(told.original.logits, asked.original.logits)
    assert told.kl(network(2)) == pytest.approx(asked.kl(network(2)), rel=1e-5)


def test_a_certain_network_is_softened() -> None:
    """By the smallest temperature of a fine grid that makes it uncertain; the KL is multiplied by its square."""
    watch = Watch(network(scale=100), batches(), ALL)
    t = watch.temperature

    def uncertainty(temperature: float) -> float:
        return (1 - probabilities(network(scale=100), temperature).square().sum(dim=1)).mean().item()

    assert t > 1
    assert uncertainty(t) >= 0.1 > uncertainty(t / 1.11)
    p, q = probabilities(network(scale=100), t), probabilities(network(1, scale=100), t)
    assert watch.kl(network(1, scale=100)) == pytest.approx(t**2 * explicit_kl(p, q), rel=1e-4)


def test_softening_ends_for_any_logits() -> None:
    assert softening(torch.tensor([[1e9, 0.0]])) >= 100
    assert softening(torch.zeros(1, 2)) == 1


def test_a_forgotten_class_is_ignored() -> None:
    """Whatever its logit does, and its probability is taken out of all others."""
    kept = torch.tensor([True, True, False, True])
    watch = Watch(network(), batches(), kept)
    changed = network()
    with torch.no_grad():
        changed.get_parameter("2.bias")[2] += 50
    assert watch.kl(changed) == 0
    p, q = probabilities(network(), kept=kept), probabilities(network(1), kept=kept)
    assert watch.kl(network(1)) == pytest.approx(explicit_kl(p, q), rel=1e-5)
    with torch.no_grad():
        logs = watch.log_probabilities(network()(batches()[0].inputs))
    torch.testing.assert_close(logs.double().exp(), p[:7], atol=1e-6, rtol=0)
    with torch.no_grad():
        changed.get_parameter("2.bias")[1] += 1
    assert watch.kl(changed) > 0.01


def test_a_quick_look_takes_the_first_batches() -> None:
    watch = Watch(network(), batches(), ALL, quick=7)
    only = explicit_kl(probabilities(network())[:7], probabilities(network(1))[:7])
    seen = watch.quick_look(network(1))
    assert watch.divergence_from_original(seen) == pytest.approx(only, rel=1e-5)
    assert watch.divergence(watch.quick_look(network()), seen) == pytest.approx(only, rel=1e-5)
    assert watch.divergence(seen, seen) == 0


def test_another_batch_is_one_that_a_quick_look_does_not_take() -> None:
    """As long as there is one; they come over and over."""
    data = batches((4, 4, 4))
    watch = Watch(network(), data, ALL, quick=4)
    assert [watch.another(i).labels.data_ptr() for i in range(3)] == [data[k].labels.data_ptr() for k in (1, 2, 1)]
    alone = Watch(network(), data[:1], ALL)
    assert torch.equal(alone.another(3).inputs, data[0].inputs)


def test_a_standard_error_is_the_spread_of_means() -> None:
    """Over 4,000 repetitions means of 25 values spread as one estimate of the error says on average."""
    g = torch.Generator().manual_seed(0)
    found = [Estimate.of(torch.rand(25, generator=g, dtype=torch.float64).square()) for _ in range(4000)]
    spread = torch.tensor([e.mean for e in found]).std().item()
    assert torch.tensor([e.error for e in found]).square().mean().sqrt().item() == pytest.approx(spread, rel=0.05)
    assert Estimate.of(torch.ones(1)) == Estimate(1.0, math.inf, 1)


def many() -> list[Batch]:
    g = torch.Generator().manual_seed(3)
    return [Batch(torch.randn(16, 5, generator=g), torch.zeros(16, dtype=torch.long)) for _ in range(20)]


def test_a_clear_case_is_decided_on_few_samples() -> None:
    """Far below and far above a limit the first samples do; at the limit it takes all, and the mean is then exact."""
    watch = Watch(network(), many(), ALL, quick=32)
    moved = network(1)
    exact = watch.kl(moved)
    for limit in (exact / 100, 100 * exact):
        found = watch.kl_against(moved, limit)
        assert found.samples == 32
        assert (found.mean > limit) == (exact > limit)
    at_the_limit = watch.kl_against(moved, exact)
    assert at_the_limit.samples == 320
    assert at_the_limit.mean == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("factor", [0.5, 0.8, 1.25, 2.0])
def test_a_decision_on_few_samples_is_the_one_on_all(factor: float) -> None:
    watch = Watch(network(), many(), ALL, quick=32)
    exact = watch.kl(network(1))
    assert (watch.kl_against(network(1), factor * exact).mean > factor * exact) == (factor < 1)


def test_a_look_that_was_taken_is_not_taken_again() -> None:
    watch, moved = Watch(network(), many(), ALL, quick=32), network(1)
    assert watch.kl_against(moved, 1e9, watch.quick_look(moved)) == watch.kl_against(moved, 1e9)
    assert watch.kl_against(network(2), 1e9, watch.first_look()).mean == 0


def test_a_broken_network_is_not_looked_at_twice() -> None:
    broken = network()
    with torch.no_grad():
        broken.get_parameter("0.weight")[0, 0] = math.nan
    found = Watch(network(), many(), ALL, quick=32).kl_against(broken, 0.1)
    assert math.isnan(found.mean)
    assert found.samples == 32


def test_a_broken_network_has_no_divergence() -> None:
    """NaN weights give NaN, not 0; a broken original is refused."""
    broken = network()
    with torch.no_grad():
        broken.get_parameter("0.weight")[0, 0] = math.nan
    assert math.isnan(Watch(network(), batches(), ALL).kl(broken))
    with pytest.raises(UnsupportedModel, match="NaN or Inf"):
        Watch(broken, batches(), ALL)


def test_drift_is_the_relative_norm_of_what_moved() -> None:
    """`|R (W - W0).T| / |R W0.T|` with the rows of the original network, for a linear layer and a convolution."""
    torch.manual_seed(0)
    original = nn.Sequential(nn.Conv2d(1, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(27, 4)).double().eval()
    moved = copy.deepcopy(original)
    with torch.no_grad():
        for p in moved.parameters():
            p += 0.1 * torch.randn_like(p)
    x = torch.randn(10, 1, 4, 4, dtype=torch.float64)
    data = [Batch(part, torch.zeros(len(part), dtype=torch.long)) for part in x.split(6)]
    found = drift(original, moved, find_layers(original).layers, data)
    with torch.no_grad():
        hidden = original[:3](x)
        conv = (moved[0](x) - original[0](x)).norm() / original[0](x).norm()
        last = (moved[3](hidden) - original[3](hidden)).norm() / original[3](hidden).norm()
    assert found == pytest.approx({"0": conv.item(), "3": last.item()}, rel=1e-9)
    assert drift(original, original, find_layers(original).layers, data) == {"0": 0.0, "3": 0.0}


def test_drift_of_many_rows_is_that_of_some_drawn_evenly() -> None:
    """A convolution with 30,000 positions: within a twentieth of the ratio over all of them."""
    torch.manual_seed(0)
    original = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten()).eval()
    moved = copy.deepcopy(original)
    with torch.no_grad():
        moved.get_parameter("0.weight").add_(0.1 * torch.randn(2, 1, 3, 3))
        data = Batch(torch.randn(8, 1, 64, 64) * torch.linspace(0, 2, 64), torch.zeros(8, dtype=torch.long))
        exact = (moved(data.inputs) - original(data.inputs)).norm() / original(data.inputs).norm()
    found = drift(original, moved, find_layers(original).layers, [data])
    assert found["0"] == pytest.approx(exact.item(), rel=0.05)


def test_drift_of_a_layer_that_gives_nothing_is_zero() -> None:
    model = nn.Linear(3, 2)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    data = [Batch(torch.randn(4, 3), torch.zeros(4, dtype=torch.long))]
    assert set(drift(model, model, find_layers(model).layers, data).values()) == {0.0}
