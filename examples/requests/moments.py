"""What a store should keep: fresh moments, pooled moments less a share, or low-rank factors of each class.

    python examples/requests/moments.py OUT [--classes 3,5,8] [--data DIR --checkpoint resnet20-12fca82f.th]

For each class the same loop runs under four guides, from the same network, with the same validation samples to watch:

- fresh: as `unsc.forget` makes it, from the data that stays;
- pooled: from a store's sums, with the share of the class taken out;
- factors: from leading eigenvectors of each class's moment, as many as take the room of the pooled moment;
- stale: from the store's sums with the class still in them.

OUT/moments.json has, for each, steps, the retained KL on validation samples and test accuracy in percent.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from subject import Subject, digits, resnet20
from torch import Tensor
from torch.utils.data import DataLoader, Subset, TensorDataset

import unsc
from unsc.batches import Batch
from unsc.logits import all_logits
from unsc.release.preparing import Preparation, plan_store
from unsc.release.shares import Sums
from unsc.release.statistics import Statistics
from unsc.steps.curvature import RetainedCurvature
from unsc.steps.factors import Matrix
from unsc.steps.together import Together

SALT, FORGOTTEN, WATCHED, RETAINED = "moments", 1000, 512, 256
"""Forgotten samples, watched samples, and retained samples of each class for the fresh guide, at most."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--classes", default="3,5,8")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--checkpoint", type=Path)
    given = parser.parse_args()
    folder = given.out.absolute()
    subject = digits(folder) if given.data is None else resnet20(folder, given.data.absolute(), given.checkpoint)
    os.chdir(folder)
    planned = plan_store(
        subject.factory, weights="model.safetensors", data="train.npz", transform=subject.transform, salt=SALT
    )
    told = compare(subject, planned, [int(k) for k in given.classes.split(",")])
    (folder / "moments.json").write_text(json.dumps(told, indent=2) + "\n")
    for k, rows in told.items():
        for name, row in rows.items():
            print(k, f"{name:8}", *(f"{what} {value:.5g}" for what, value in row.items()))


def compare(subject: Subject, planned: Preparation, classes: list[int]) -> dict[str, dict[str, Any]]:
    """For each class and guide what came of it."""
    sums = {k: by_class(planned, k) for k in range(len(planned.class_names))}
    found: dict[str, dict[str, Any]] = {}
    for k in classes:
        guides = guides_without(planned, sums, k)
        found[str(k)] = {name: reached(subject, planned, guide, k) for name, guide in guides.items()}
    return found


def by_class(planned: Preparation, k: int) -> Sums:
    return planned.sharing.of(planned.source, [member for member in planned.members if member.label == k])


def guides_without(planned: Preparation, sums: Mapping[int, Sums], k: int) -> dict[str, RetainedCurvature]:
    """A guide of each kind for forgetting class k."""
    forgotten, retained, check = (loader(planned, *part) for part in parts(planned, k))
    fresh = unsc.retained_curvature(planned.model.model, retained, check=check, forgotten=forgotten, forget=[k])
    gradients = first_gradients(planned, k)
    whole = statistics(planned, sums.values())
    stored = {"pooled": whole.without(sums[k]), "factors": low_rank(planned, sums, k), "stale": whole}
    return {"fresh": fresh} | {name: s.curvature(planned.layers, gradients) for name, s in stored.items()}


def statistics(planned: Preparation, parts: Any) -> Statistics:
    total = Sums.empty(planned.layers)
    for part in parts:
        for name in total.fit:
            total.fit[name] += part.fit[name]
            total.check[name] += part.check[name]
            total.fisher[name] += part.fisher[name]
        for what in total.samples:
            total.samples[what] += part.samples[what]
    alone = Together.alone(len(planned.layers))
    return Statistics.of(total, planned.plan, planned.sharing.batch_size, planned.sharing.temperature, alone)


def low_rank(planned: Preparation, sums: Mapping[int, Sums], k: int) -> Statistics:
    """The other classes' moments, each by as many eigenvectors as make all classes as large as one pooled moment."""
    kept = statistics(planned, [own for other, own in sums.items() if other != k])
    fit = {
        x.name: sum(truncated(own.fit[x.name].dense(), -(-x.columns // len(sums))) for c, own in sums.items() if c != k)
        for x in planned.layers
    }
    return replace(kept, fit={name: moment.float() for name, moment in fit.items()})  # type: ignore[union-attr]


def truncated(moment: Tensor, rank: int) -> Tensor:
    values, vectors = torch.linalg.eigh(moment)
    values, vectors = values[:, -rank:], vectors[:, :, -rank:]
    return (vectors * values[:, None, :]) @ vectors.mT


def first_gradients(planned: Preparation, k: int) -> dict[str, Matrix]:
    """Of the forget loss, whose steps a damping is chosen for."""
    from unsc.request import Request
    from unsc.steps.budgeted import first_gradients as gradients_of_task
    from unsc.targets import find_targets
    from unsc.task import RetainFit, Samples, Task, make_aims
    from unsc.watch import Watch

    request = Request.for_classes([k], len(planned.class_names))
    batch = next(iter(loader(planned, *parts(planned, k)[0], size=256)))
    samples = Samples(batch, batch, RetainFit.none(), [])
    aims = make_aims(planned.network, request, samples, find_targets("soft", "classes"))
    watch = Watch(planned.network, [], request.kept)
    return gradients_of_task(Task(planned.network, planned.layers, request, samples, watch, aims, 0, 1 << 28))


def parts(planned: Preparation, k: int) -> list[tuple[list[int], int]]:
    """Positions of forgotten samples, of retained ones, and of others to check on."""
    labels = planned.data.labels
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    goes = order[labels[order] == k][:FORGOTTEN].tolist()
    stays = [order[labels[order] == c].tolist() for c in labels.unique().tolist() if c != k]
    retained = [i for own in stays for i in own[64 : 64 + RETAINED]]
    return [(goes, k), (retained, k), ([i for own in stays for i in own[: min(64, len(own) // 5)]], k)]


def loader(planned: Preparation, positions: list[int], _: int, size: int = 64) -> Any:
    from unsc.datasets import read

    return [read(planned.source, positions[i : i + size]) for i in range(0, len(positions), size)]


def reached(subject: Subject, planned: Preparation, guide: RetainedCurvature, k: int) -> dict[str, float]:
    watched = unseen(planned, subject, k)
    forgotten = loader(planned, *parts(planned, k)[0])
    result = unsc.unlearn(planned.model.model, forgotten, guide, retained=watched, forget=[k])
    test = subject.test_batch
    right = (all_logits(result.model.eval(), test).argmax(dim=1) == test.labels).double() * 100
    goes = test.labels == k
    m = result.metrics
    return {
        "steps": m.steps,
        "retained_kl": m.retained_kl,
        "retain": right[~goes].mean().item(),
        "forget": right[goes].mean().item(),
    }


def unseen(planned: Preparation, subject: Subject, k: int) -> list[Batch]:
    """Validation samples of the classes that stay."""
    data = unsc.load_data("validation.npz", model=planned.model, transform=subject.transform)
    stays = (data.labels != k).nonzero().flatten()[:WATCHED].tolist()
    pairs = [data.dataset[i] for i in stays]
    whole = TensorDataset(torch.stack([x for x, _ in pairs]), torch.tensor([y for _, y in pairs]))
    return [Batch(x, y) for x, y in DataLoader(Subset(whole, range(len(whole))), batch_size=64)]


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
