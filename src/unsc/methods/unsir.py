"""UNSIR: noise that the network finds least like a class takes that class's place."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

from unsc.batches import Batch, describe
from unsc.datasets import read, read_labels
from unsc.errors import InvalidData
from unsc.logits import logits_of
from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.sampling import some_of_each_class
from unsc.methods.shared.search import Range
from unsc.methods.shared.training import descend, number_of_batches, passes


@method(
    needs=("retain",),
    kinds=("classes",),
    search={
        "impair_lr": Range(1e-3, 1e-1, log=True),
        "repair_lr": Range(1e-3, 1e-1, log=True),
        "noise_batches": Range(1, 20, log=True),
    },
)
def unsir(
    problem: Problem,
    *,
    impair_lr: float = 0.02,
    repair_lr: float = 0.01,
    impair_epochs: int = 1,
    repair_epochs: int = 1,
    noise_batches: int = 20,
    noise_steps: int = 40,
    noise_lr: float = 0.1,
    noise_penalty: float = 0.1,
    samples_per_class: int = 1000,
    batch_size: int = 64,
) -> nn.Module:
    """A. K. Tarun, V. S. Chundawat, M. Mandal, M. Kankanhalli: Fast Yet Effective Machine Unlearning. IEEE TNNLS 2023.

    Mechanism: noise is learned that maximises the loss of each forgotten class; training on it under that class's
    label together with retained samples impairs the network, and training on the retained samples alone repairs
    it.

    Data: retained samples alone, as one floating point tensor; forgotten samples are never looked at.

    Published: noise of 256 samples for each class, 40 steps of Adam with learning rate 0.1, its squared norm
    weighted by 0.1; 1,000 samples of each retained class and the noise 20 times over, in batches of 256, by
    1 epoch of Adam with learning rate 0.02, then 1 epoch with 0.01 on the samples alone (the authors' code;
    CIFAR-10).

    Departures: SGD with momentum 0.9 instead of Adam for the network, as for all methods here; batches and noise of 64
    samples, so that small data sets get enough steps. Noise bears the label of its own class; the published code gives
    it label 0 whatever the class. The network stays in evaluation mode, so that noise does not move its batch-norm
    statistics; the publication's is in training mode.
    """
    model = problem.copy()
    noise = learned_noise(problem, size=batch_size, steps=noise_steps, lr=noise_lr, penalty=noise_penalty)
    labels = read_labels(problem.retain, progress=problem.progress)
    chosen = some_of_each_class(labels, samples_per_class, problem.generator())
    retained = Subset(problem.retain, chosen.tolist())
    repeated = Subset(noise, list(range(len(noise))) * noise_batches)

    def train(dataset: Dataset, lr: float, epochs: int) -> None:
        plan = passes(dataset, size=batch_size, epochs=epochs, seed=problem.seed)
        total = number_of_batches(dataset, size=batch_size, epochs=epochs)
        descend(model, plan, loss, lr=lr, total=total, progress=problem.progress)

    def loss(batch: Batch) -> Tensor:
        return F.cross_entropy(logits_of(model, batch), batch.labels)

    train(ConcatDataset([repeated, retained]), impair_lr, impair_epochs)
    train(retained, repair_lr, repair_epochs)
    return model


def learned_noise(problem: Problem, *, size: int, steps: int, lr: float, penalty: float) -> TensorDataset:
    """For each forgotten class `size` inputs that the network likes least as that class, with its label.

    They maximise cross entropy minus `penalty` times their squared norm, from standard normal noise.
    """
    model, generator = problem.copy(), problem.generator()
    sample = read(problem.retain, [0]).for_model(model).inputs
    if not (torch.is_tensor(sample) and sample.is_floating_point()):
        raise InvalidData(
            f"the model is called with {describe(sample)}; unsir learns noise instead of inputs, which takes one "
            "floating point tensor: choose another method, such as scrub"
        )
    learned, labels = [], torch.tensor(problem.classes).repeat_interleave(size)
    with problem.progress("learning noise", steps * len(problem.classes)) as advance:
        for of_class in labels.to(sample.device).split(size):
            start = torch.randn(size, *sample.shape[1:], generator=generator)
            noise = start.to(sample.device, sample.dtype).requires_grad_()
            optimizer = torch.optim.Adam([noise], lr=lr)
            for _ in range(steps):
                fit = F.cross_entropy(logits_of(model, Batch(noise, of_class)), of_class)
                optimizer.zero_grad()
                (penalty * noise.square().sum() / size - fit).backward(inputs=[noise])
                optimizer.step()
                advance()
            learned.append(noise.detach().cpu())
    return TensorDataset(torch.cat(learned), labels)
