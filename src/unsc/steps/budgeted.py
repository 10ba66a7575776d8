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
from unsc.layers import Layer, parameters_of
from unsc.progress import Progress
from unsc.steps.curvature import RetainedCurvature
from unsc.steps.estimate import estimate
from unsc.steps.gradients import total_gradients
from unsc.steps.losses import ForgetLoss, Pulled, divergence
from unsc.steps.rule import Spent, Step, StepRule
from unsc.steps.together import Together, effects, mix_of, parts_of
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
_MEASURED_ON = 32
"""Samples that it is measured on."""
_TELLING = 0.01
"""Share of the budget from which on the cost of a step tells how good its prediction was, not how float32 rounds."""
_PROBE, _TOO_FAR = 0.1, 4.0
"""What a part is moved by to see its effect, and what is too much for that, in budgets."""


@dataclass(frozen=True)
class BudgetedRule(StepRule[RetainedCurvature]):
    """Steps that each spend a budget of retained prediction change."""

    name: ClassVar[str] = "budgeted"
    any_layout: ClassVar[bool] = True
    guides: ClassVar[tuple[type, ...]] = (RetainedCurvature,)
    targets: ClassVar[Targets] = "soft"
    max_kl: ClassVar[float] = 0.1

    budget: float = 4e-4
    """Nats of retained prediction change that each step may cost; targets may have a pace that multiplies it."""
    hidden: float = 0.0
    """How strongly forgotten samples are also pulled to the hidden features of the retained samples most like them, in
    nats for each variance of those features. 0 is fastest; 1 leaves less of a class in the features, in about twice as
    many steps."""

    def __post_init__(self) -> None:
        require("budget", self.budget, "a number above 0", is_number(self.budget) and self.budget > 0)
        require("hidden", self.hidden, "a number of at least 0", is_number(self.hidden) and self.hidden >= 0)

    def passes(self, steps_per_pass: int) -> int:
        return max(2, -(-_FEWEST_STEPS // steps_per_pass))

    def prepare(self, task: Task, progress: Progress) -> RetainedCurvature:
        """What weight changes cost all data that stays, the remaining samples of records' classes included."""
        return estimate(task, first_gradients(task, self._loss(task)), progress=progress)

    def start(self, model: nn.Module, task: Task, guide: RetainedCurvature) -> BudgetedStep:
        rule, loss = task.aims.rule, self._loss(task)
        budget = rule.pace * self.budget
        return BudgetedStep(model, task.layers, guide, task.watch, budget=budget, momentum=rule.momentum, loss=loss)

    def _loss(self, task: Task) -> ForgetLoss:
        if self.hidden == 0:
            return divergence
        if task.request.kind == "records":
            raise InvalidRequest(f"hidden={self.hidden} is for classes, whose samples belong elsewhere; leave it out")
        return Pulled.to_nearest(task, self.hidden)


_DAMPING_SAMPLES, _AT_ONCE = 128, 64
"""Forgotten samples whose gradient the damping is chosen for, and how many of them are in one backward pass."""
_MOST_AT_ONCE = 128
"""Samples in one backward pass of a step."""


def first_gradients(task: Task, loss: ForgetLoss = divergence) -> dict[str, Tensor]:
    """Those of the forget loss at the original network, whose steps the damping is chosen for."""
    forgotten = task.samples.forget_fit
    count = min(_DAMPING_SAMPLES, len(forgotten))
    total = dict.fromkeys((x.name for x in task.layers), torch.zeros(()))
    for chosen in torch.arange(count).split(_AT_ONCE):
        own = chosen[peers.own_part(len(chosen))]
        some = forgotten[own].for_model(task.original)
        _, found = forget_gradients(task.original, task.layers, some, task.aims.fit[own], loss)
        total = {name: total[name].to(g) + len(chosen) / count * g for name, g in found.items()}
    return total


def forget_gradients(
    model: nn.Module, layers: Sequence[Layer], batch: Batch, targets: Tensor, loss: ForgetLoss = divergence
) -> tuple[float, dict[str, Tensor]]:
    """The forget loss in nats, by default KL from `targets` (n, classes), and its gradient by each layer's matrix.

    Under several ranks the batch is a rank's part, perhaps an empty one; loss and gradient are those of all parts.
    """
    (size,) = peers.total_of(len(batch))

    def weighted() -> Tensor:
        return len(batch) / size * loss(model, batch, targets)

    value, grads = total_gradients(weighted if len(batch) else None, parameters_of(model, layers))
    return value, {layer.name: layer.matrix(grads) for layer in layers}


def forget_gradients_of_many(
    model: nn.Module, layers: Sequence[Layer], batch: Batch, targets: Tensor, loss: ForgetLoss = divergence
) -> tuple[float, dict[str, Tensor]]:
    """The same with no more than 128 samples of a rank in memory at once."""
    (size,) = peers.total_of(len(batch))
    pieces = math.ceil(size / (_MOST_AT_ONCE * peers.count()))
    if pieces <= 1:
        return forget_gradients(model, layers, batch, targets, loss)
    value, total = 0.0, dict.fromkeys((x.name for x in layers), torch.zeros(()))
    for own in torch.arange(len(batch)).tensor_split(pieces):  # as many on every rank
        share = peers.total_of(len(own))[0] / size
        here, found = forget_gradients(model, layers, batch[own], targets[own], loss)
        value, total = value + share * here, {name: total[name].to(g) + share * g for name, g in found.items()}
    return value, total


class BudgetedStep(Step):
    """Learn target labels, spending at most `budget` nats of retained prediction change a step."""

    takes_parts = True

    def __init__(
        self,
        model: nn.Module,
        layers: Sequence[Layer],
        curvature: RetainedCurvature,
        watch: Watch,
        *,
        budget: float,
        momentum: float = 0.0,
        loss: ForgetLoss = divergence,
    ) -> None:
        self.model, self.layers, self.watch, self.budget, self.loss = model, layers, watch, budget, loss
        self.parameters = parameters_of(model, layers)
        example = next(iter(self.parameters.values()))
        self.curvature = curvature.to(example.device, example.dtype)
        for p in self.parameters.values():
            p.requires_grad_(True)
        self.parts = parts_of(layers)
        self.together = Together.alone(len(self.parts))
        self.excess = 1.0
        """Measured over predicted cost of the steps so far, beyond what `together` says; recent ones count most."""
        self._spent: list[Spent] = []
        self._spent_by_layer = dict.fromkeys((x.name for x in layers), 0.0)
        self._seen = self.seen = watch.first_look()
        self._next_measurement, self._measurements, self._interval = 0, 0, _MEASURE_EVERY
        self._calls, self._steps = 0, 0
        self._momentum = momentum
        self._former: tuple[dict[str, Tensor], dict[str, Tensor]] | None = None

    def __call__(self, batch: Batch, targets: Tensor) -> None:
        """Step on samples and their target distributions (n, classes)."""
        self._calls += 1
        loss, own = forget_gradients_of_many(self.model, self.layers, batch, targets, self.loss)
        alone = {name: self.curvature.layers[name].solve(g, len(batch)) for name, g in own.items()}
        gradients, steps = self._with_former(own, alone)
        # b tr(D (A + damping I) D.T) of the unit step is <G, D>: what it is predicted to cost is what it gains.
        costs_alone, falls = self._products(gradients, steps), self._products(own, steps)
        gains = self._by_part(costs_alone)
        if not (gains.sum() > 0 and loss > ROUNDING):
            return  # nothing left to learn from this batch
        if self._steps >= self._next_measurement:
            self._measure(steps, gains)
        self._steps += 1
        costs = self.together.costs(gains)
        mix = mix_of(costs, gains)
        length = self._move(steps, mix, (mix @ costs @ mix).item(), (mix @ self._by_part(falls)).item(), loss)
        spent = length**2 / 2 * mix.square() * costs.diagonal()
        for part, nats, gain in zip(self.parts, spent.tolist(), gains.tolist(), strict=True):
            for x in part:  # the layers of a part are known by their predictions alone
                self._spent_by_layer[x.name] += nats * costs_alone[x.name] / gain if gain > 0 else 0.0

    def _with_former(
        self, gradients: dict[str, Tensor], steps: dict[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Gradients and the steps that they call for, with a share of those before, unless that leads uphill."""
        if self._momentum == 0:
            return gradients, steps
        own = gradients
        if self._former is not None:
            both = [
                {name: x + self._momentum * before[name] for name, x in now.items()}
                for now, before in zip((gradients, steps), self._former, strict=True)
            ]
            if sum(self._products(own, both[1]).values()) > 0:
                gradients, steps = both
        self._former = gradients, steps
        return gradients, steps

    def _products(self, gradients: Mapping[str, Tensor], steps: Mapping[str, Tensor]) -> dict[str, float]:
        return {name: (gradients[name] * step).sum().item() for name, step in steps.items()}

    def _by_part(self, numbers: Mapping[str, float]) -> Tensor:
        return torch.tensor([sum(numbers[x.name] for x in part) for part in self.parts], dtype=torch.float64)

    @property
    def spent(self) -> Sequence[Spent]:
        return self._spent

    @property
    def spent_by_layer(self) -> Mapping[str, float]:
        return self._spent_by_layer

    def _measure(self, steps: Mapping[str, Tensor], gains: Tensor) -> None:
        """See how the parts of this step add up, on samples other than those that steps are checked on."""
        batch = self.watch.another(self._measurements)
        batch = batch[torch.arange(min(_MEASURED_ON, len(batch)))]
        agreed = self._measurements > 0 and 1 / _AGREE <= self.excess <= _AGREE
        self._interval = 2 * self._interval if agreed else _MEASURE_EVERY
        lengths = (2 * _PROBE * self.budget / (self.together.excess * gains).clamp(min=1e-30)).sqrt()
        for _ in range(_TRIES):
            changes = effects(self.model, self.parts, steps, lengths.tolist(), batch, self.watch)
            spent = lengths.square() * changes.square().sum(dim=1) / 2
            # Beyond the budget, or where the network breaks, a difference is no derivative.
            sound = spent <= _TOO_FAR * self.budget
            if sound.all():
                self.together, self.excess = Together.measured(changes, gains), 1.0
                break
            lengths = torch.where(sound, lengths, 0.1 * lengths)
        self._measurements += 1
        self._next_measurement = self._steps + self._interval

    def _move(self, steps: Mapping[str, Tensor], mix: Tensor, cost: float, gain: float, loss: float) -> float:
        """Move along `mix`, of this cost and gain at length 1, as far as budget and loss allow; gives the length."""
        with torch.no_grad():
            before = {x.name: x.matrix(self.parameters) for x in self.layers}
        share = {x.name: k for part, k in zip(self.parts, mix.tolist(), strict=True) for x in part}
        for _ in range(_TRIES):
            # Spend the budget, but go no further than where the loss, were it linear, would be gone.
            length = min(math.sqrt(2 * self.budget / (self.excess * cost)), loss / max(gain, 1e-30))
            for x in self.layers:
                x.write(torch.sub(before[x.name], steps[x.name], alpha=length * share[x.name]), self.parameters)
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
        for x in self.layers:
            x.write(before[x.name], self.parameters)
        return 0.0

    def _allowed(self, moved: float, total: float) -> bool:
        """The root of a KL is a length: a step goes, and adds, at most twice the length of its budget."""
        if not (math.isfinite(moved) and math.isfinite(total)):
            return False
        bound = 2 * math.sqrt(self.budget)
        before = self._spent[-1].total if self._spent else 0.0
        return math.sqrt(moved) <= bound and math.sqrt(total) - math.sqrt(before) <= bound

    @torch.no_grad()
    def predicted_kl(self, original: nn.Module, edited: nn.Module) -> float:
        """By the curvature, adding up layers as if each had moved alone."""
        before, after = dict(original.named_parameters()), dict(edited.named_parameters())
        return sum(self.curvature.layers[x.name].kl(x.matrix(after) - x.matrix(before)) for x in self.layers)
