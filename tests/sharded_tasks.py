"""What ranks do with networks that FSDP2 has sharded, in a module that their processes can import."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import rank_tasks
import torch
import torch.distributed as dist
from blobs import learned
from rank_tasks import DATA, of, part_of, report
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import unsc
from unsc.shards import is_shard, local
from unsc.steps.budgeted import BudgetedRule, BudgetedStep

TEXTS = 6, 12
"""Tokens of a text, and how many there are to choose from."""


def sharded(network: nn.Module, *inside: int, **how: Any) -> nn.Module:
    """The network with some of its modules, and itself, sharded over all ranks; as it is in a single process."""
    if not dist.is_initialized():
        return network
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for i in inside:
        fully_shard(network[i], mesh=mesh, **how)  # type: ignore[index]
    return fully_shard(network, mesh=mesh, **how)  # type: ignore[return-value]


@cache
def _trained(make: Callable[[], nn.Module], data: TensorDataset, steps: int) -> nn.Module:
    torch.manual_seed(0)
    return learned(make(), data, steps=steps).double()


def trained(make: Callable[[], nn.Module], data: TensorDataset = DATA, steps: int = 40) -> nn.Module:
    return copy.deepcopy(_trained(make, data, steps))


# --- networks


def uneven() -> nn.Module:
    """Numbers of rows that four ranks cannot share evenly; one with fewer rows than ranks."""
    return nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 3), nn.Tanh(), nn.Linear(3, 7), nn.Linear(7, 4))


def convolutions() -> nn.Module:
    """Groups that two ranks share and four cut through, one group for each channel, and a transposed convolution."""
    return nn.Sequential(
        nn.Linear(6, 64),
        nn.Unflatten(1, (4, 4, 4)),
        nn.Conv2d(4, 12, 3, padding=1, groups=2),
        nn.ReLU(),
        nn.Conv2d(12, 12, 3, padding=1, groups=12),
        nn.ConvTranspose2d(12, 4, 2, stride=2),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(256, 4),
    )


class Mean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=1)


class Read(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 6, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x)[0]


def texts() -> nn.Module:
    """An embedding, fused attention whose rows of queries, keys and values are cut across, and a recurrence."""
    block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.Embedding(TEXTS[1], 8), block, Read(), Mean(), nn.Linear(6, 4))


@cache
def written() -> TensorDataset:
    """Texts of four classes, each with tokens of its own."""
    g = torch.Generator().manual_seed(0)
    labels = torch.arange(240) % 4
    own = 3 * labels[:, None] + torch.randint(3, (240, TEXTS[0]), generator=g)
    noise = torch.randint(TEXTS[1], own.shape, generator=g)
    return TensorDataset(torch.where(torch.rand(own.shape, generator=g) < 0.7, own, noise), labels)


# --- tasks whose report must be that of one process


def a_class(folder: Path) -> dict[str, Any]:
    return report(unsc.forget(sharded(rank_tasks.model(), 0), DATA, classes=[3], samples_per_class=60))


def batches_smaller_than_the_group(folder: Path) -> dict[str, Any]:
    network = sharded(rank_tasks.model(), 0, 2)
    return report(unsc.forget(network, DATA, classes=[3], batch_size=1, max_passes=1))


def by_the_papers_step(folder: Path) -> dict[str, Any]:
    how = {"step": "paper", "energy": 0.9, "merge_energy": 0.9, "max_passes": 2}
    return report(unsc.forget(sharded(rank_tasks.model(), 2), DATA, classes=[3], **how))


def records(folder: Path) -> dict[str, Any]:
    network = sharded(rank_tasks.model(), 0, 5)
    return report(unsc.forget(network, DATA, indices=[3, 5, 130, 250, 251], targets="away", max_passes=2))


def records_by_the_papers_step(folder: Path) -> dict[str, Any]:
    how = {"step": "paper", "energy": 0.8, "merge_energy": 0.8, "max_passes": 2, "lr": 0.01, "least_gain": 0.0}
    return report(unsc.forget(sharded(rank_tasks.model(), 0), DATA, indices=[3, 5, 130, 250, 251], **how))


def rows_that_do_not_divide(folder: Path) -> dict[str, Any]:
    return report(unsc.forget(sharded(trained(uneven), 0, 2), DATA, classes=[3], max_passes=2))


def kinds_of_convolutions(folder: Path) -> dict[str, Any]:
    return report(unsc.forget(sharded(trained(convolutions), 2, 5), DATA, classes=[3], max_passes=1))


def kinds_of_convolutions_by_the_papers_step(folder: Path) -> dict[str, Any]:
    how = {"step": "paper", "energy": 0.9, "merge_energy": 0.9, "max_passes": 1}
    return report(unsc.forget(sharded(trained(convolutions), 2, 5), DATA, classes=[3], **how))


def kinds_that_read_texts(folder: Path) -> dict[str, Any]:
    network = sharded(trained(texts, written(), 150), 0, 1, 2)
    result = unsc.forget(network, written(), classes=[3], max_passes=1)
    return report(result, written().tensors[0])


def from_loaders(folder: Path) -> dict[str, Any]:
    network = sharded(rank_tasks.model(), 0)
    retained, check, gone = part_of(of(0, 1)), part_of(of(2)), part_of(of(3))
    guide = unsc.retained_curvature(network, retained, check=check, forgotten=gone, forget=[3])
    return report(unsc.unlearn(network, gone, guide, retained=check, forget=[3]))


def with_dropped_outputs(folder: Path) -> dict[str, Any]:
    network = sharded(rank_tasks.model(), 0)
    return report(unsc.forget(network, DATA, classes=[3], samples_per_class=60, drop_outputs=True))


@dataclass(frozen=True)
class OnCopies(BudgetedRule):
    """A rule that knows nothing of shards."""

    in_shards: ClassVar[bool] = False


def by_a_rule_that_needs_whole_weights(folder: Path) -> dict[str, Any]:
    network = sharded(rank_tasks.model(), 0)
    return report(unsc.forget(network, DATA, classes=[3], samples_per_class=60, step=OnCopies()))


SAME = (
    a_class,
    batches_smaller_than_the_group,
    by_the_papers_step,
    records,
    records_by_the_papers_step,
    rows_that_do_not_divide,
    kinds_of_convolutions,
    kinds_of_convolutions_by_the_papers_step,
    kinds_that_read_texts,
    from_loaders,
    with_dropped_outputs,
    by_a_rule_that_needs_whole_weights,
)


# --- others


@contextmanager
def gathered_shapes() -> Generator[list[tuple[int, ...]]]:
    """The shapes of all tensors that are made whole inside, other than by passes through the network."""
    from torch.distributed.tensor import DTensor

    seen: list[tuple[int, ...]] = []
    before = DTensor.full_tensor

    def noting(self: Any, *args: Any, **kwargs: Any) -> Tensor:
        seen.append(tuple(self.shape))
        return before(self, *args, **kwargs)

    DTensor.full_tensor = noting  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        DTensor.full_tensor = before  # type: ignore[method-assign]


def what_is_held(folder: Path) -> dict[str, Any]:
    """What this rank has of the weights at every step, of the results, and what was gathered by us."""
    held: list[tuple[bool, int]] = []
    call = BudgetedStep.__call__

    def noting(self: BudgetedStep, *args: Any) -> None:
        call(self, *args)
        held.append(_held(self.model))

    network, BudgetedStep.__call__ = sharded(rank_tasks.model(), 0, 2), noting  # type: ignore[method-assign]
    before = rank_tasks.outputs(network)
    try:
        with gathered_shapes() as shapes:
            result = unsc.forget(network, DATA, classes=[3], samples_per_class=60)
    finally:
        BudgetedStep.__call__ = call  # type: ignore[method-assign]
    own = _held(result.model)
    pairs = zip(network.parameters(), result.model.parameters(), strict=True)
    alike = all(a.placements == b.placements for a, b in pairs)  # type: ignore[attr-defined]
    kept = torch.equal(before, rank_tasks.outputs(network))
    return {"steps": held, "result": own, "gathered": shapes, "original stays": kept, "alike": alike}


def _held(model: nn.Module) -> tuple[bool, int]:
    """Whether all weights are shards, and how many numbers this rank has of them."""
    return all(is_shard(p) for p in model.parameters()), sum(local(p).numel() for p in model.parameters())


def a_network_that_was_used(folder: Path) -> dict[str, Any]:
    """The outermost weights of which are whole after a pass."""
    network = sharded(rank_tasks.model())
    rank_tasks.outputs(network)
    return report(unsc.forget(network, DATA, classes=[3], samples_per_class=60))


def in_half_precision(folder: Path) -> tuple[str, list[str], bool]:
    """Weights in bfloat16: the work is done in float32, and the result comes back in bfloat16."""
    from torch.distributed.fsdp import MixedPrecisionPolicy

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    network = sharded(rank_tasks.model().bfloat16(), 0, mp_policy=policy)
    result = unsc.forget(network, DATA, classes=[3], samples_per_class=60)
    moved = any(
        not torch.equal(local(a), local(b))
        for a, b in zip(network.parameters(), result.model.parameters(), strict=True)
    )
    return result.metrics.status, [str(p.dtype) for p in result.model.parameters()], moved


def is_saved_whole(folder: Path) -> bool:
    result = unsc.forget(sharded(rank_tasks.model(), 0), DATA, classes=[3], samples_per_class=60, max_passes=1)
    result.save(folder / f"saved-{dist.get_rank()}")
    loaded = unsc.Forgotten.load(folder / f"saved-{dist.get_rank()}", rank_tasks.model())
    return torch.allclose(rank_tasks.outputs(loaded.model), rank_tasks.outputs(result.model))


def a_broken_sample_that_one_rank_reads(folder: Path) -> None:
    data = rank_tasks.Watched(rank_tasks.unreadable_on_one_rank)
    unsc.forget(sharded(rank_tasks.model(), 0), data, classes=[3])


def weights_that_are_not_finite_on_one_rank(folder: Path) -> None:
    network = sharded(rank_tasks.model(), 0)
    if dist.get_rank() == 1:
        local(next(network.parameters())).fill_(torch.nan)
    unsc.forget(network, DATA, classes=[3])


def memory_runs_out_in_a_pass(folder: Path) -> None:
    """Others are in the pass by then; nobody can be told but by the end of the process."""
    network = sharded(rank_tasks.model(), 0)

    def limited(module: nn.Module, args: tuple[Tensor, ...]) -> None:
        if dist.get_rank() == 1 and len(args[0]) > 5:
            raise RuntimeError("not enough memory: you tried to allocate 1 byte")

    network[5].register_forward_pre_hook(limited)  # type: ignore[index]
    unsc.forget(network, DATA, classes=[3], samples_per_class=60)


OTHERS = (what_is_held, a_network_that_was_used, in_half_precision, is_saved_whole)
FAILING = {
    a_broken_sample_that_one_rank_reads: "the disk is gone",
    weights_that_are_not_finite_on_one_rank: "NaN or Inf",
}
