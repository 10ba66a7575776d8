"""ReGUn: records are taught what the network says of unseen samples of their class."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.datasets import read, read_labels
from unsc.errors import InvalidData, listing
from unsc.logits import all_logits, logits_of
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.search import Range
from unsc.methods.shared.training import descend, endless, number_of_batches, passes


@method(
    needs=("forget", "retain", "validation"),
    kinds=("records",),
    search={
        "lr": Range(1e-4, 1e-1, log=True),
        "epochs": Range(1, 10),
        "forget_weight": Range(0.1, 10.0, log=True),
    },
)
def regun(
    problem: Problem, *, lr: float = 0.01, epochs: int = 5, forget_weight: float = 1.0, batch_size: int = 64
) -> nn.Module:
    """Source: Mirlach, Laguna, Vogt, "Reference-Guided Machine Unlearning", 2026.

    Mechanism: with every batch of forgotten samples, held-out samples of the same classes are drawn, as many of each
    class as there are in the batch; the mean of the original network's predictions for them is what the forgotten
    samples are distilled towards, beside the usual loss on retained samples.

    Data: forgotten, retained and held-out samples.

    Published: the reference is the original network, the mean is over the draw for a batch. Learning rate, epochs and
    the weights of the two terms are not known to us: the defaults here are our own, to be tuned.

    Departures: the mean is taken class by class, and each record gets that of its class; one mean for a batch of
    many classes would teach each record all of them. The divergence is KL from the reference to the network, averaged
    over the batch. For whole classes it has no meaning, since held-out samples of a class are recognised. Evaluation
    mode, as for all methods here.
    """
    original, model = problem.copy(), problem.copy()
    reference = Reference(problem, original)
    forgotten = endless(problem.forget, size=batch_size, seed=problem.seed)

    def loss(retained: Batch) -> Tensor:
        gone = next(forgotten).for_model(model)
        wanted = reference.draw(gone.labels)
        away = F.kl_div(logits_of(model, gone).log_softmax(dim=1), wanted, reduction="batchmean")
        return F.cross_entropy(logits_of(model, retained), retained.labels) + forget_weight * away

    return descend(
        model,
        passes(problem.retain, size=batch_size, epochs=epochs, seed=problem.seed),
        loss,
        lr=lr,
        total=number_of_batches(problem.retain, size=batch_size, epochs=epochs),
        progress=problem.progress,
    )


class Reference:
    """The original network's predictions for held-out samples, from which means by class are drawn."""

    def __init__(self, problem: Problem, original: nn.Module) -> None:
        held_out, asked = read_labels(problem.validation), read_labels(problem.forget)
        missing = sorted(set(asked.unique().tolist()) - set(held_out.unique().tolist()))
        if missing:
            raise InvalidData(
                f"validation has no sample of class {listing(missing)}, of which records are forgotten; give some"
            )
        batch = read(problem.validation, range(len(held_out)))
        with torch.no_grad():
            predictions = all_logits(original, batch.for_model(original)).softmax(dim=1)
        self._by_class = {k: predictions[(held_out == k).to(predictions.device)] for k in held_out.unique().tolist()}
        self._generator = problem.generator()

    def draw(self, labels: Tensor) -> Tensor:
        """For each sample with these `labels` (n,) the mean prediction of a draw of its class, (n, classes).

        As many held-out samples of a class are drawn, with replacement, as there are samples of it.
        """
        first = next(iter(self._by_class.values()))
        wanted = first.new_zeros(len(labels), first.shape[1])
        for k in labels.unique().tolist():
            mine, known = labels == k, self._by_class[k]
            drawn = torch.randint(len(known), (int(mine.sum()),), generator=self._generator)
            wanted[mine] = known[drawn.to(known.device)].mean(dim=0)
        return wanted
