"""The budgeted step: the most forgetting for a given change of retained predictions. It has no learning rate.

For the gradient G of the forget loss, each layer's direction is `D = G (b (A + damping I))^-1`, which lowers that loss
most for its predicted cost. How the layers' costs add up is measured now and then (`together.py`), which says how
much each of them moves, and the budget in nats of retained KL says how far. Then the cost of the step itself is
measured: if retained predictions moved more than the budget allows, the step is taken back and tried shorter, and
what was measured beyond the prediction makes later steps shorter, or longer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from unsc import peers
from unsc.batches import Batch
from unsc.checks import is_number, require
from unsc.errors import InvalidRequest
from unsc.layers import Layer, Weights
from unsc.pieces import learned_from
from unsc.progress import Progress
from unsc.shards import local
from unsc.steps.course import Course, Heading
from unsc.steps.curvature import RetainedCurvature
from unsc.steps.estimate import BRIEF, SPARING, estimate
from unsc.steps.factors import Matrix, add, joined, shared_gradients
from unsc.steps.inverse import Inverse
from unsc.steps.losses import Beyond, ForgetLoss, Pulled, divergence
from unsc.steps.rule import Spent, Step, StepRule
from unsc.steps.together import Together, effects, mix_of
from unsc.targets import Targets
from unsc.task import Task
from unsc.watch import Watch

_TRIES = 12
ROUNDING = 1e-6
"""A forget loss in nats that float32 cannot tell from 0; it may even be negative."""
_FEWEST_STEPS = 64
"""Small requests take more passes, so that their steps are not too few for the budget of each."""
_MEASURE_EVERY, _AGREE = 8, 2.0
"""Steps until it is measured anew how layers add up, at first. While steps cost what was predicted, up to this factor,
each time takes twice as long to come."""
_MEASURED_ON = 2
"""Batches of retained samples that it is measured on at first; then one at a time, and the mean with what was found
before while steps cost what was predicted."""
_TELLING = 0.01
"""Share of the budget from which on the cost of a step tells how good its prediction was, not how float32 rounds."""


@dataclass(frozen=True)
class BudgetedRule(StepRule[RetainedCurvature]):
    """Steps that each spend a budget of retained prediction change."""

    name: ClassVar[str] = "budgeted"
    most_samples: ClassVar[int] = 64
    any_layout: ClassVar[bool] = True
    in_shards: ClassVar[bool] = True
    guides: ClassVar[tuple[type, ...]] = (RetainedCurvature,)
    targets: ClassVar[Targets] = "soft"
    max_kl: ClassVar[float] = 0.1

    budget: float = 4e-4
    """Nats of retained prediction change that each step may cost; targets may have a pace that multiplies it."""
    hidden: float = 0.0
    """How strongly forgotten samples are also pulled to the hidden features of the retained samples most like them, in
    nats for each variance of those features. 0 is fastest; 1 leaves less of a class in the features, and each step
    does more work."""

    def __post_init__(self) -> None:
        require("budget", self.budget, "a number above 0", is_number(self.budget) and self.budget > 0)
        require("hidden", self.hidden, "a number of at least 0", is_number(self.hidden) and self.hidden >= 0)

    def passes(self, steps_per_pass: int) -> int:
        return max(2, -(-_FEWEST_STEPS // steps_per_pass))

    def prepare(self, task: Task, progress: Progress) -> RetainedCurvature:
        """What weight changes cost all data that stays, the remaining samples of records' classes included."""
        effort = BRIEF if task.aims.rule.pace > 1 else SPARING
        return estimate(task, first_gradients(task, self._loss(task)), effort, progress=progress)

    def start(self, model: nn.Module, task: Task, guide: RetainedCurvature) -> BudgetedStep:
        rule, loss = task.aims.rule, self._loss(task)
        budget = rule.pace * self.budget
        return BudgetedStep(model, task.layers, guide, task.watch, budget=budget, loss=loss, past=rule.past)

    def _loss(self, task: Task) -> ForgetLoss:
        if task.request.kind == "records":
            if self.hidden:
                raise InvalidRequest(
                    f"hidden={self.hidden} is for classes, whose samples belong elsewhere; leave it out"
                )
            return divergence
        learned = Beyond.enough(task)
        return Pulled.to_nearest(task, learned, self.hidden) if self.hidden else learned


_DAMPING_SAMPLES = 128
"""Forgotten samples whose gradient the damping is chosen for."""


def first_gradients(task: Task, loss: ForgetLoss = divergence) -> dict[str, Matrix]:
    """Those of the forget loss at the original network, whose steps the damping is chosen for."""
    forgotten = task.samples.forget_fit
    chosen = torch.arange(min(_DAMPING_SAMPLES, len(forgotten)))
    part = peers.own_part(len(chosen))
    some, targets = forgotten[chosen[part]].for_model(task.original), task.aims.fit[chosen][part]
    return forget_gradients(task.original, task.layers, some, targets, loss)[1]


def forget_gradients(
    model: nn.Module,
    layers: Sequence[Layer],
    batch: Batch,
    targets: Tensor,
    loss: ForgetLoss = divergence,
    *,
    at_once: int | None = None,
) -> tuple[float, dict[str, Matrix]]:
    """The forget loss in nats, by default KL from `targets` (n, classes), and its gradient by each layer's matrix.

    Under several ranks the batch is a rank's part, perhaps an empty one; loss and gradient are those of all parts. A
    backward pass has no more than `at_once` samples of a rank, by default as many as suit the device.
    """
    (size,) = peers.total_of(len(batch))
    at_once = at_once or learned_from(batch.labels.device)
    passes = max(1, -(-int(size) // (at_once * peers.count())))

    def weighted(own: Batch, wanted: Tensor) -> Tensor:
        return len(own) / size * loss(model, own, wanted)

    value, parts = 0.0, list[dict[str, Matrix]]()
    for own in torch.arange(len(batch)).tensor_split(passes):  # as many on every rank
        here, found = shared_gradients(model, layers, weighted, batch if passes == 1 else batch[own], targets[own])
        value, parts = value + here, [*parts, found]
    return value, {x.name: joined([part[x.name] for part in parts]) for x in layers}


class BudgetedStep(Step):
    """Learn target labels, spending at most `budget` nats of retained prediction change a step."""

    takes_parts, check_every = True, 2

    def __init__(
        self,
        model: nn.Module,
        layers: Sequence[Layer],
        curvature: RetainedCurvature,
        watch: Watch,
        *,
        budget: float,
        loss: ForgetLoss = divergence,
        past: float = 0.0,
    ) -> None:
        """`past` is the share that earlier directions keep in a step's, see `Course`."""
        self.model, self.layers, self.watch, self.budget, self.loss = model, layers, watch, budget, loss
        self.weights = Weights(model, layers)
        self.parameters = self.weights.parameters
        example = next(iter(self.parameters.values()))
        held = {x.name: self.weights.groups(x) for x in layers}
        self.inverse = Inverse(curvature.to(example.device, example.dtype).of_groups(held))
        for p in self.parameters.values():
            p.requires_grad_(True)
        self._before = {name: local(p).clone() for name, p in self.parameters.items()}
        self.course, self.together = Course(self.weights, layers, past), Together.alone(len(layers))
        self.excess = 1.0
        """Measured over predicted cost of the steps so far, beyond what `together` says; recent ones count most."""
        self._spent: list[Spent] = []
        self._spent_by_layer = dict.fromkeys((x.name for x in layers), 0.0)
        self._seen = self.seen = watch.first_look()
        self._next_measurement, self._measurements, self._looked_at, self._interval = 0, 0, 0, _MEASURE_EVERY
        self._calls, self._steps = 0, 0

    def begin_pass(self, number: int) -> None:
        if isinstance(self.loss, (Beyond, Pulled)):
            self.loss = self.loss.in_pass(number)

    def __call__(self, batch: Batch, targets: Tensor) -> None:
        """Step on samples and their target distributions (n, classes)."""
        self._calls += 1
        loss, gradients = forget_gradients(self.model, self.layers, batch, targets, self.loss)
        steps = {name: self.inverse.solve(name, g) for name, g in gradients.items()}
        heading = self.course.turned(gradients, steps)
        if not (heading.costs.sum() > 0 and loss > ROUNDING):
            return  # nothing left to learn from this batch
        if self._steps >= self._next_measurement:
            self._measure(heading)
        self._steps += 1
        # b tr(D (A + damping I) D.T) of a direction D = G / b (A + damping I) is <G, D>: it costs what it gains.
        costs = self.together.costs(heading.costs)
        mix = mix_of(costs, heading.costs)
        # A course that was steeper before than it is now has come to where it flattens out: go no further than before.
        gain = max((mix @ heading.gains).item(), (mix @ heading.costs).item())
        length = self._move(heading.directions, mix, (mix @ costs @ mix).item(), gain, loss)
        own = length**2 / 2 * mix.square() * costs.diagonal()
        for x, nats in zip(self.layers, own.tolist(), strict=True):
            self._spent_by_layer[x.name] += nats

    @property
    def spent(self) -> Sequence[Spent]:
        return self._spent

    @property
    def spent_by_layer(self) -> Mapping[str, float]:
        return self._spent_by_layer

    def _measure(self, heading: Heading) -> None:
        """See how the layers of this step add up, on samples other than those that steps are checked on."""
        first = self._measurements == 0
        batches = [self.watch.another(self._looked_at + i) for i in range(_MEASURED_ON if first else 1)]
        self._looked_at += len(batches)
        agreed = not first and 1 / _AGREE <= self.excess <= _AGREE
        self._interval = 2 * self._interval if agreed else _MEASURE_EVERY
        found = effects(self.model, self.layers, heading.directions, batches, self.watch, seed=self._measurements)
        if torch.isfinite(found).all() and found.any():  # where nothing shows, the curvature is all that is known
            now = Together.measured(found, heading.costs)
            self.together, self.excess = self.together.averaged(now) if agreed else now, 1.0
        self._measurements += 1
        self._next_measurement = self._steps + self._interval

    def _move(self, steps: Mapping[str, Matrix], mix: Tensor, cost: float, gain: float, loss: float) -> float:
        """Move along `mix`, of this cost and gain at length 1, as far as budget and loss allow; gives the length."""
        with torch.no_grad():
            for name, kept in self._before.items():
                kept.copy_(local(self.parameters[name]))
        for _ in range(_TRIES):
            # Spend the budget, but go no further than where the loss, were it linear, would be gone.
            length = min(math.sqrt(2 * self.budget / (self.excess * cost)), loss / gain)
            for x, share in zip(self.layers, mix.tolist(), strict=True):
                add(self.weights, x, steps[x.name], -length * share)
            seen = self.watch.quick_look(self.model)
            moved, total = self.watch.divergence(self._seen, seen), self.watch.divergence_from_original(seen)
            predicted = length**2 * cost / 2
            if self._allowed(moved, total):
                self._seen = self.seen = seen
                self._spent.append(Spent(self._calls, loss, self.excess * predicted, moved, total))
                if predicted >= _TELLING * self.budget:
                    self.excess = math.sqrt(self.excess * max(moved, ROUNDING * self.budget) / predicted)
                return length
            # Shorter by half at least. That the prediction was this wrong also calls for another measurement.
            self.excess = max(4 * self.budget, moved if math.isfinite(moved) else 16 * self.budget) / predicted
            self._next_measurement = self._steps
            self.taken_back += 1
            self._take_back()
        return 0.0

    @torch.no_grad()
    def _take_back(self) -> None:
        """Exactly: a step far too long leaves nothing of a weight that could be had by going back."""
        for name, kept in self._before.items():
            local(self.parameters[name]).copy_(kept)

    def _allowed(self, moved: float, total: float) -> bool:
        """The root of a KL is a length: a step goes, and adds, at most twice the length of its budget."""
        if not (math.isfinite(moved) and math.isfinite(total)):
            return False
        bound = 2 * math.sqrt(self.budget)
        before = self._spent[-1].total if self._spent else 0.0
        return math.sqrt(moved) <= bound and math.sqrt(total) - math.sqrt(before) <= bound

    def predicted_kl(self, original: nn.Module, edited: nn.Module) -> float:
        """To second order, by the derivatives of the original's retained predictions along the whole way, all layers
        together: how far it is from measured says how far the network is from what each step takes it for."""
        way = Weights(original, self.layers).way_to(Weights(edited, self.layers))
        found = effects(original, self.layers, way, [self.watch.another(0)], self.watch, seed=0)
        return 0.5 * found.sum(dim=1).square().sum().item()
