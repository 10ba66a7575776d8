"""Bad teaching: an untrained teacher for forgotten samples, the original for all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch, join
from unsc.datasets import read, size_of
from unsc.errors import UnsupportedModel
from unsc.logits import logits_of
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.search import Range
from unsc.methods.shared.training import descend


@method(
    needs=("forget", "retain"),
    search={"lr": Range(1e-4, 1e-1, log=True), "epochs": Range(1, 10), "retain_share": Range(0.3, 1.0)},
)
def bad_teacher(
    problem: Problem,
    *,
    lr: float = 1e-2,
    epochs: int = 1,
    retain_share: float = 0.3,
    temperature: float = 1.0,
    batch_size: int = 256,
) -> nn.Module:
    """V. S. Chundawat, A. K. Tarun, M. Mandal, M. Kankanhalli: Can Bad Teaching Induce Forgetting? Unlearning in
    Deep Networks Using an Incompetent Teacher. AAAI 2023.

    Mechanism: a student that starts as the original is distilled, on a mixture of all forgotten and some retained
    samples, from a newly initialised network on the former and from the original on the latter.

    Data: forgotten samples and a random share of the retained ones.

    Published: Adam with learning rate 1e-4, 1 epoch, 30 % of the retained samples, temperature 1, batches of 256
    (the authors' code; CIFAR-20 and a pretrained ResNet-18).

    Departures: SGD with momentum 0.9 instead of Adam, as for all methods here, so the learning rate is our
    own. The divergence is averaged over samples, not over samples and classes. The incompetent teacher is a copy
    whose modules draw their parameters anew; parameters that no module can draw stay as they are. The student
    stays in evaluation mode, so that its batch-norm statistics stay as they are; the publication's is in
    training mode. The share of retained samples is searched for up to all of them: where few are given, 30 % are
    fewer than the forgotten ones.
    """
    incompetent = newly_initialised(problem.copy(), problem.seed)
    return taught(
        problem,
        problem.copy(),
        incompetent,
        lr=lr,
        epochs=epochs,
        retain_share=retain_share,
        temperature=temperature,
        batch_size=batch_size,
    )


def taught(
    problem: Problem,
    competent: nn.Module,
    incompetent: nn.Module,
    *,
    lr: float,
    epochs: int,
    retain_share: float,
    temperature: float,
    batch_size: int,
) -> nn.Module:
    """A student of two teachers: `incompetent` for forgotten samples, `competent` for retained ones."""
    model = problem.copy()

    def loss(batch: Batch) -> Tensor:
        forgotten = batch.labels.bool()[:, None]
        with torch.no_grad():
            scores = torch.where(forgotten, logits_of(incompetent, batch), logits_of(competent, batch))
        wanted = (scores / temperature).softmax(dim=1)
        return F.kl_div((logits_of(model, batch) / temperature).log_softmax(dim=1), wanted, reduction="batchmean")

    batches, total = marked_batches(problem, retain_share, batch_size, epochs)
    return descend(model, batches, loss, lr=lr, total=total, progress=problem.progress)


def newly_initialised(model: nn.Module, seed: int) -> nn.Module:
    """`model` with the parameters and statistics of every module that can do so drawn anew, in place."""
    resets = [r for m in model.modules() if (r := _reset_of(m)) is not None and any(True for _ in m.parameters())]
    if not resets:
        raise UnsupportedModel(
            f"no module of {type(model).__name__} has reset_parameters to draw its parameters anew, so there is no "
            "incompetent teacher; add that method to its modules, or choose another way to forget, such as scrub"
        )
    device = next(model.parameters()).device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        for reset in resets:
            reset()
    return model


def _reset_of(module: nn.Module) -> Callable[[], None] | None:
    # Attention and transformers keep theirs private.
    return getattr(module, "reset_parameters", None) or getattr(module, "_reset_parameters", None)


def marked_batches(problem: Problem, share: float, size: int, epochs: int) -> tuple[Iterator[Batch], int]:
    """Shuffled batches of all forgotten and a `share` of the retained samples, and how many batches there are.

    Instead of labels they carry 1 for forgotten samples and 0 for retained ones.
    """
    forget, retain, generator = problem.forget, problem.retain, problem.generator()
    n, m = size_of(forget), size_of(retain)
    chosen = torch.randperm(m, generator=generator)[: max(1, round(share * m))]

    def batch_of(positions: Tensor) -> Batch:
        """Positions below n are forgotten samples, the others chosen retained ones."""
        gone, kept = positions[positions < n], chosen[positions[positions >= n] - n]
        parts = [read(data, at.tolist()) for data, at in ((forget, gone), (retain, kept)) if len(at)]
        return Batch(join(parts).inputs, torch.cat([torch.ones_like(gone), torch.zeros_like(kept)]))

    orders = (torch.randperm(n + len(chosen), generator=generator).split(size) for _ in range(epochs))
    return map(batch_of, chain.from_iterable(orders)), epochs * -(-(n + len(chosen)) // size)
