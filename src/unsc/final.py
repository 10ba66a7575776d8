"""What the network that a run ends with says of the samples that the run is judged on."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unsc.drift import drift
from unsc.features import Head
from unsc.layers import parameters_of
from unsc.logits import shared_logits
from unsc.outputs import BeforeHead
from unsc.sharded import is_sharded
from unsc.steps import Step
from unsc.targets import Scores, scores_of
from unsc.task import Task
from unsc.watch import Watch


def measured_drift(task: Task, final: nn.Module, step: Step) -> dict[str, float]:
    """Measured, or, where there are no retained samples, as the guide predicts."""
    if not task.watch.batches:
        return step.predicted_drift(task.original, final)
    return drift(task.original, final, task.layers, task.watch.batches)


def head_inputs_of_final(task: Task, final: nn.Module, head: Head | None) -> BeforeHead | None:
    """What the head is given, if its outputs may be settled: the pass that tells is also the one that judges."""
    return BeforeHead.of(task, final, head.path) if head is not None and task.request.kind == "classes" else None


def scores_reached(
    task: Task, final: nn.Module, given: BeforeHead | None, ended: nn.Module, said: Tensor | None
) -> Scores:
    """What the final network says of the samples to check.

    `said` is what the network `ended` said of records when the run ended, if they were all looked at: the final one
    says the same if its weights are the same, and were not rounded to those of the user's network.
    """
    samples = task.samples.forget_check
    if given is not None:
        logits = given.logits(given.forgotten)
    elif said is not None and task.request.kind == "records" and _same_weights(task, final, ended):
        logits = said
    else:
        return scores_of(final, samples)
    return Scores(logits, samples.labels.to(logits.device))


def _same_weights(task: Task, one: nn.Module, other: nn.Module) -> bool:
    if is_sharded(one):
        return False
    own, others = (parameters_of(model, task.layers) for model in (one, other))
    return all(torch.equal(p, others[name]) for name, p in own.items())


def measured_kl(task: Task, final: nn.Module, given: BeforeHead | None, step: Step) -> float:
    """Over the classes that stay: those that are gone may get lower than they were. Predicted if nothing is watched."""
    if not task.watch.batches:
        return step.predicted_kl(task.original, final)
    gone, kept = task.request.gone, task.request.stays
    if gone:
        return Watch(task.original, task.samples.retain_check, kept).kl(final)
    return task.watch.kl(final) if given is None else task.watch.kl_of(given.logits(given.retained))


def gone_mass(task: Task, model: nn.Module) -> float | None:
    """What a network gives the classes that are gone, on all samples to check."""
    if not task.request.gone:
        return None
    parts = [task.samples.forget_check, *task.samples.retain_check]
    logits = torch.cat([shared_logits(model, part) for part in parts])
    return logits.softmax(dim=1)[:, list(task.request.gone)].sum(dim=1).mean().item()
