"""What a run stands on: its task, and the whole network if the task is about the end of it alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from unsc.batches import Batch
from unsc.coverage import Coverage, coverage, moved
from unsc.depth import moving
from unsc.ending import shortened
from unsc.features import Head
from unsc.layers import Layer, parameters_of
from unsc.layout import channels_last
from unsc.logits import OfOutput
from unsc.models import editable_layers, working_copy
from unsc.options import CompletedOptions
from unsc.outputs import check_droppable, editable_head
from unsc.request import Request
from unsc.sharded import copied
from unsc.shards import local
from unsc.targets import find_targets
from unsc.task import Samples, Task, make_aims
from unsc.watch import Watch


@dataclass(frozen=True)
class Ground:
    """A task with what belongs to the whole network."""

    task: Task
    whole: nn.Module
    """The original network; that of the task, or what it is the end of."""
    probe: Batch
    """Some samples, as the whole network takes them."""
    frozen: dict[str, str]
    """Parameters that stay as they are, with the reason."""
    head: Head | None
    """The head whose outputs are to be settled or dropped afterwards; None if that is not done."""

    def final(self, result: nn.Module, logits: OfOutput | None) -> nn.Module:
        """A working copy of the result that takes the task's samples."""
        made = working_copy(result, logits=logits)
        channels_last(made, self.probe)
        return made if self.whole is self.task.original else with_weights(self.task.original, made, self.task.layers)

    def edited(self, final: nn.Module) -> Coverage:
        """How much of the whole network is other than it was."""
        return coverage(self.whole, moved(self.task.original, final, self.task.layers), self.probe)


def prepare(
    original: nn.Module,
    request: Request,
    samples: Samples,
    options: CompletedOptions,
    *,
    unseen_margins: Sequence[float] = (),
) -> Ground:
    """See which layers move, and where samples should go. `unseen_margins` are those of `make_aims`."""
    probe, rule = samples.probe, find_targets(options.targets, request.kind)
    if options.step.any_layout:
        channels_last(original, probe)
    layers, frozen = editable_layers(original, probe, parameters=options.parameters)
    if options.parameters is None and len(samples.retain_fit):  # a guide that is at hand already is one of all layers
        layers, frozen = moving(original, layers, frozen, rule, probe)
    head = _head(original, layers, samples, request, options)
    end, samples = shortened(original, layers, samples, request, options.sample_bytes)
    aims = make_aims(end, request, samples, rule, unseen_margins=unseen_margins, stop_mass=options.stop_mass)
    watch = Watch(end, samples.retain_check, request.kept, said=aims.retained)
    task = Task(end, layers, request, samples, watch, aims, options.seed, options.chunk_bytes)
    return Ground(task, original, probe, frozen, head)


@torch.no_grad()
def with_weights(network: nn.Module, source: nn.Module, layers: Iterable[Layer]) -> nn.Module:
    """A copy of a network, in its precision and mode, whose `layers` have the weights that they have in `source`."""
    made = copied(network)
    values = parameters_of(source, layers)
    for name, target in parameters_of(made, layers).items():
        local(target).copy_(local(values[name]))
    return made


def _head(
    original: nn.Module, layers: Iterable[Layer], samples: Samples, request: Request, options: CompletedOptions
) -> Head | None:
    if not (options.drop_outputs or options.step.settles):
        return None
    head = editable_head(original, layers, samples.probe)
    return check_droppable(original, head, request) if options.drop_outputs else head
