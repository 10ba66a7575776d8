"""What each rank of a process group does (`rank_groups.py`), in a module that its processes can import."""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from blobs import blobs, learned
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

import unsc
from unsc import peers
from unsc.bench.datasets import load
from unsc.bench.networks import digits_cnn

# --- a network and its data, the same in every process


DATA = blobs(120)
INPUTS = DATA.tensors[0].double()
RECORDED = Path(__file__).parent / "before" / "original.safetensors"
"""Weights of a trained network for digits."""


@cache
def _model() -> nn.Module:
    """Linear layers and a convolution, trained.

    In float64, where sums that are made in another order are the same in all digits that are compared.
    """
    torch.manual_seed(0)
    layers = nn.Linear(6, 64), nn.Unflatten(1, (4, 4, 4)), nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.Flatten()
    return learned(nn.Sequential(*layers, nn.Linear(128, 4)), DATA, steps=30).double()


def model() -> nn.Module:
    return copy.deepcopy(_model())


def outputs(network: nn.Module, inputs: Tensor = INPUTS) -> Tensor:
    with torch.no_grad():
        return network(inputs)


def report(result: unsc.Forgotten, inputs: Tensor = INPUTS) -> dict[str, Any]:
    """What must be the same whoever does the work."""
    return {
        "outputs": outputs(result.model, inputs),
        "steps": result.metrics.steps,
        "stopped": result.metrics.stopped,
        "retained_kl": result.metrics.retained_kl,
        "drift_max": result.metrics.drift_max,
        "forget_acc": result.metrics.forget_acc,
    }


def part_of(data: Any, **how: Any) -> DataLoader[Any]:
    """This rank's part of some data, without a sample that comes twice; all of it in a single process."""
    rank, count = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    each = len(data) // count
    return DataLoader(Subset(data, range(rank * each, (rank + 1) * each)), batch_size=30, **how)


class Watched(Dataset[Any]):
    """The samples of `DATA`, each announced before it is read, by its position."""

    targets = DATA.tensors[1].tolist()

    def __init__(self, announce: Callable[[int], object]) -> None:
        self.announce = announce

    def __len__(self) -> int:
        return len(DATA)

    def __getitem__(self, i: int) -> Any:
        self.announce(i)
        return DATA[i]


def unreadable_on_one_rank(i: int) -> None:
    if dist.get_rank() == 1 and i > 20:
        raise OSError("the disk is gone")


def of(*classes: int) -> Subset[Any]:
    labels = DATA.tensors[1]
    return Subset(DATA, [i for i in range(len(DATA)) if int(labels[i]) in classes])


# --- tasks


def forgets_a_class(folder: Path) -> dict[str, Any]:
    return report(unsc.forget(model(), DATA, classes=[3], samples_per_class=60))


def forgets_in_float32(folder: Path) -> list[Tensor]:
    """What users have; the predictions of two results, whose steps depend most on how sums are rounded."""
    digits, network = load("digits"), digits_cnn()
    network.load_state_dict(load_file(RECORDED))
    one = unsc.forget(network.eval(), digits.train, classes=[1]).model
    two = unsc.forget(model().float(), DATA, classes=[1, 2]).model
    return [outputs(one, digits.test.tensors[0]).softmax(dim=1), outputs(two, DATA.tensors[0]).softmax(dim=1)]


def forgets_in_batches_smaller_than_the_group(folder: Path) -> dict[str, Any]:
    return report(unsc.forget(model(), DATA, classes=[3], batch_size=1, max_passes=1))


def forgets_by_the_papers_step(folder: Path) -> dict[str, Any]:
    return report(unsc.forget(model(), DATA, classes=[3], step="paper", energy=0.9, merge_energy=0.9, max_passes=2))


def forgets_records(folder: Path) -> dict[str, Any]:
    return report(unsc.forget(model(), DATA, indices=[3, 5, 130, 250, 251], targets="away", max_passes=2))


def forgets_records_by_the_papers_step(folder: Path) -> dict[str, Any]:
    how = {"step": "paper", "energy": 0.8, "merge_energy": 0.8, "max_passes": 2, "lr": 0.01, "least_gain": 0.0}
    return report(unsc.forget(model(), DATA, indices=[3, 5, 130, 250, 251], **how))


def forgets_from_loaders(folder: Path) -> dict[str, Any]:
    network = model()
    retained, check = part_of(of(0, 1)), part_of(of(2))
    gone = part_of(of(3))
    guide = unsc.retained_curvature(network, retained, check=check, forgotten=gone, forget=[3])
    return report(unsc.unlearn(network, gone, guide, retained=check, forget=[3]))


def collects_moments(folder: Path) -> dict[str, Any]:
    moments = unsc.collect_moments(model(), part_of(DATA), num_classes=4, samples_per_class=1000)
    space = unsc.null_space(moments, retain=[0, 1, 2], energy=0.9, merge_energy=0.95)
    projectors = {name: u @ u.mT for name, u in space.bases.items()}
    return {"samples": moments.samples, "ranks": space.ranks, "projectors": projectors}


def takes_a_distributed_model(folder: Path) -> tuple[str, dict[str, Any]]:
    result = unsc.forget(DistributedDataParallel(model()), DATA, classes=[3], samples_per_class=60)
    return type(result.model).__name__, report(result)


def one_rank_works_alone(folder: Path) -> float:
    """Others do something else meanwhile, and nobody waits."""
    if dist.get_rank() == 0:
        with unsc.alone():
            return unsc.forget(model(), DATA, classes=[3], max_passes=1).metrics.forget_acc
    return 0.0


def ranks_draw_the_same(folder: Path) -> list[int]:
    """Which samples are read, by all ranks together."""
    read: list[int] = []
    unsc.forget(model(), Watched(read.append), classes=[3], samples_per_class=20, max_passes=1)
    with peers.joined():
        return sorted({i for part in peers.gathered(read) for i in part})


def another_model_on_one_rank(folder: Path) -> None:
    network = model()
    if dist.get_rank() == 1:
        with torch.no_grad():
            network[0].weight[0, 0] += 1e-3  # type: ignore[index,union-attr]
    unsc.forget(network, DATA, classes=[3])


def other_classes_on_one_rank(folder: Path) -> None:
    unsc.forget(model(), DATA, classes=[2 if dist.get_rank() == 1 else 3])


def a_class_that_is_not_there_on_one_rank(folder: Path) -> None:
    unsc.forget(model(), DATA, classes=[9 if dist.get_rank() == 1 else 3])


def other_options_on_one_rank(folder: Path) -> None:
    unsc.forget(model(), DATA, classes=[3], seed=dist.get_rank())


def other_labels_on_one_rank(folder: Path) -> None:
    labels = DATA.tensors[1].clone()
    labels[0] = dist.get_rank()
    unsc.forget(model(), TensorDataset(DATA.tensors[0], labels), classes=[3])


def an_empty_loader_on_one_rank(folder: Path) -> None:
    network, gone = model(), part_of(of(3))
    check = part_of(of(1)) if dist.get_rank() == 0 else DataLoader(Subset(DATA, []))
    unsc.retained_curvature(network, part_of(of(0)), check=check, forgotten=gone, forget=[3])


def a_rank_is_killed(folder: Path) -> None:
    """While it reads a sample; the others are at work, or wait for it."""

    def deadly(i: int) -> None:
        if dist.get_rank() == 1 and i > 20:
            os._exit(1)

    unsc.forget(model(), Watched(deadly), classes=[3])


def no_data_on_one_rank(folder: Path) -> None:
    loader = DataLoader(Subset(DATA, range(0 if dist.get_rank() == 1 else 40)), batch_size=20)
    unsc.collect_moments(model(), loader, num_classes=4)


def the_same_data_on_every_rank(folder: Path) -> None:
    whole = DataLoader(of(3), batch_size=20)
    unsc.retained_curvature(model(), part_of(of(0)), check=part_of(of(1)), forgotten=whole, forget=[3])


def a_broken_sample_that_one_rank_reads(folder: Path) -> None:
    unsc.forget(model(), Watched(unreadable_on_one_rank), classes=[3])


def memory_runs_out_on_one_rank(folder: Path) -> tuple[str, Tensor]:
    """While the guide is made, forward passes over many samples take too much there; smaller ones do not."""
    network, refused = model(), itertools.count()

    def limited(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        if dist.get_rank() == 1 and len(args[0]) > 5 and not torch.is_grad_enabled() and next(refused) < 40:
            raise RuntimeError("not enough memory: you tried to allocate 1 byte")

    network.register_forward_pre_hook(limited)
    result = unsc.forget(network, DATA, classes=[3], samples_per_class=60)
    return result.metrics.status, next(result.model.parameters()).detach()


def everybody_is_well_after_all_that(folder: Path) -> list[int]:
    with peers.joined():
        return peers.gathered(peers.rank())


ON_FOUR = (
    forgets_a_class,
    forgets_in_batches_smaller_than_the_group,
    collects_moments,
    forgets_in_float32,
    a_broken_sample_that_one_rank_reads,
    everybody_is_well_after_all_that,
)
"""Tasks for which it matters that there are more ranks than two."""
SAME = (
    forgets_a_class,
    forgets_in_batches_smaller_than_the_group,
    forgets_by_the_papers_step,
    forgets_records,
    forgets_records_by_the_papers_step,
    forgets_from_loaders,
)
"""Tasks whose report must be the same in one process."""
FAILING = {
    another_model_on_one_rank: "the ranks disagree on the model",
    other_classes_on_one_rank: "the ranks disagree on what is to be forgotten",
    a_class_that_is_not_there_on_one_rank: "the model has no class 9",
    other_options_on_one_rank: "the ranks disagree on the options",
    other_labels_on_one_rank: "the ranks disagree on the labels",
    no_data_on_one_rank: "gave no sample on rank 1",
    an_empty_loader_on_one_rank: "the loader check gave no sample on rank 1",
    the_same_data_on_every_rank: "the same 120 samples",
    a_broken_sample_that_one_rank_reads: "the disk is gone",
}
"""Tasks that end with an error on every rank, and what it says."""
OTHERS = (
    collects_moments,
    forgets_in_float32,
    takes_a_distributed_model,
    one_rank_works_alone,
    ranks_draw_the_same,
    memory_runs_out_on_one_rank,
)
