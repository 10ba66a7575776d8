"""The loop: what it steps on, when it stops, and which state it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.loop import Outcome, Schedule, run_loop
from unsc.request import Request
from unsc.steps import Step
from unsc.targets import Soft, pseudo_labels
from unsc.task import RetainFit, Samples, Task, make_aims
from unsc.watch import Watch

CLASSES = 3


def network() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(4, CLASSES).eval()


def forgotten(n: int = 20) -> Batch:
    x = torch.randn(n, 4, generator=torch.Generator().manual_seed(1))
    return Batch(x, torch.full((n,), 2))


def retained() -> Batch:
    return Batch(torch.randn(16, 4, generator=torch.Generator().manual_seed(2)), torch.arange(16) % 2)


def start(
    model: nn.Linear,
    step: Step,
    *,
    max_passes: int = 4,
    max_kl: float = 0.5,
    seed: int = 0,
    request: Request = Request(CLASSES, (2,)),  # noqa: B008 - frozen
    batch: Batch | None = None,
    stop_mass: float = 0.01,
) -> Outcome:
    """Batches of 5 of 20 forgotten samples, so that a pass has 4 steps."""
    batch = forgotten() if batch is None else batch
    watch = Watch(model, [retained()], torch.tensor([True, True, False]))
    samples = Samples(batch, batch, RetainFit.from_batch(retained()), [retained()])
    aims = make_aims(model, request, samples, Soft(), stop_mass=stop_mass)
    task = Task(model, (), request, samples, watch, aims, seed, 1 << 20)
    return run_loop(model, task, step, Schedule(5, max_passes, max_kl, seed))


class Script(Step):
    """A step that makes a planned change to the bias at each call, and notes what it was given."""

    def __init__(self, model: nn.Linear, plan: Callable[[int], Tensor]) -> None:
        self.model, self.plan = model, plan
        self.batches: list[Batch] = []
        self.targets: list[Tensor] = []
        self.biases: list[Tensor] = []

    @torch.no_grad()
    def __call__(self, batch: Batch, targets: Tensor) -> None:
        self.batches.append(batch)
        self.targets.append(targets)
        self.model.bias.add_(self.plan(len(self.batches)))
        self.biases.append(self.model.bias.clone())


def less(amount: float) -> Tensor:
    """Lower the forgotten class's logit, which the retained divergence does not see."""
    return torch.tensor([0.0, 0.0, -amount])


RUIN = {"nan": torch.tensor([0.0, torch.nan, 0.0]), "kl": torch.tensor([9.0, 0.0, 0.0])}


@pytest.mark.parametrize("why", RUIN)
def test_a_ruined_network_is_restored_to_its_best_state(why: str) -> None:
    """Four sound steps, then ruin: the state after the fourth is what is left, and the outcome says why."""
    model = network()
    script = Script(model, lambda i: less(0.1) if i <= 4 else RUIN[why])
    outcome = start(model, script)
    assert outcome.stopped == why
    assert outcome.steps == len(script.batches) == 8
    assert torch.equal(model.bias, script.biases[3])


@pytest.mark.parametrize("why", RUIN)
def test_ruin_from_the_start_leaves_the_original(why: str) -> None:
    model = network()
    outcome = start(model, Script(model, lambda i: RUIN[why]))
    assert outcome.stopped == why
    assert torch.equal(model.bias, network().bias)
    assert torch.equal(model.weight, network().weight)


def test_the_best_state_is_the_most_forgotten_one() -> None:
    """Four steps forward, then back again: the cap on passes ends the run, and the state after step 4 stays."""
    model = network()
    script = Script(model, lambda i: less(0.5) if i <= 4 else less(-0.5))
    outcome = start(model, script, max_passes=2)
    assert outcome.stopped == "passes"
    assert (outcome.steps, outcome.passes) == (8, 2.0)
    assert torch.equal(model.bias, script.biases[3])


def test_it_stops_when_forgotten() -> None:
    """At the first check after the class is gone, not before and not later."""
    model = network()
    outcome = start(model, Script(model, lambda i: less(50.0 if i == 5 else 0.0)))
    assert outcome.stopped == "forgotten"
    assert (outcome.steps, outcome.passes) == (8, 2.0)
    last = outcome.history[-1]
    assert (last.forget_acc, last.retained_kl) == (0.0, pytest.approx(0, abs=1e-6))
    assert last.forget_mass < 1e-6
    assert [check.steps for check in outcome.history] == [4, 8]
    assert outcome.seconds > 0


def test_what_it_says_at_the_end_is_what_the_network_says_of_each_sample() -> None:
    """In their own order, although they are looked at by chance; and nothing where it is not forgotten."""
    model, batch = network(), forgotten()
    batch = replace(batch, inputs=torch.randn(batch.inputs.shape, generator=torch.Generator().manual_seed(0)))
    outcome = start(model, Script(model, lambda i: less(50.0 if i == 3 else 0.0)), batch=batch)
    assert outcome.said is not None
    torch.testing.assert_close(outcome.said, model(batch.inputs))
    assert start(network(), Script(network(), lambda i: less(0.0))).said is None


def test_mass_must_be_gone_too() -> None:
    """A class that never wins but still holds probability is not forgotten; records only need to leave it."""
    by_mass = {}
    for stop_mass in (0.01, 1.0):
        model = network()
        outcome = start(model, Script(model, lambda i: less(4.0 if i == 1 else 0.0)), stop_mass=stop_mass, max_passes=1)
        assert outcome.history[-1].forget_acc == 0
        assert 0.01 < outcome.history[-1].forget_mass < 0.3
        by_mass[stop_mass] = outcome.stopped
    assert by_mass == {0.01: "passes", 1.0: "forgotten"}


def test_every_pass_sees_every_sample_once_with_its_own_target() -> None:
    """Targets come from the original network, however far it has moved since."""
    model, original = network(), network()
    script = Script(model, lambda i: less(0.1))
    start(model, script, max_passes=3)
    whole = forgotten()
    with torch.no_grad():
        expected = pseudo_labels(original(whole.inputs), Request(CLASSES, (2,)).removed(whole.labels))
    for first in (0, 4, 8):
        seen = torch.cat([b.inputs for b in script.batches[first : first + 4]])
        which = (seen[:, None] == whole.inputs).all(dim=2).int().argmax(dim=1)
        assert sorted(which.tolist()) == list(range(20))
        assert torch.equal(torch.cat(script.targets[first : first + 4]), expected[which])


def test_a_seed_decides_the_order() -> None:
    """Equal seeds give equal batches, other seeds others, and the global generator is left alone."""
    orders = []
    before = torch.random.get_rng_state()
    for seed in (0, 0, 1):
        with torch.random.fork_rng(devices=[]):
            model = network()
        script = Script(model, lambda i: less(0.0))
        start(model, script, seed=seed)
        orders.append(torch.cat([b.inputs for b in script.batches]))
    assert torch.equal(orders[0], orders[1])
    assert not torch.equal(orders[0], orders[2])
    assert torch.equal(before, torch.random.get_rng_state())


def test_records_lose_their_own_class_alone() -> None:
    """Targets of records give their own label nothing, and any other class something."""
    model = network()
    mixed = Batch(forgotten(6).inputs, torch.tensor([0, 1, 2, 0, 1, 2]))
    script = Script(model, lambda i: less(0.0))
    start(model, script, request=Request(CLASSES), batch=mixed, max_passes=1)
    labels, targets = torch.cat([b.labels for b in script.batches]), torch.cat(script.targets)
    assert ((targets == 0) == torch.eye(3, dtype=torch.bool)[labels]).all()
