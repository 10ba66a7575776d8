"""The paper's method: plain SGD in the null space of what stays."""

from __future__ import annotations

from unsc.methods.shared.problem import Problem
from unsc.methods.shared.registry import method
from unsc.methods.shared.search import Range
from unsc.methods.unsc import carried_out
from unsc.result import Forgotten


@method(
    needs=("forget", "retain"),
    search={"lr": Range(5e-4, 1.0, log=True), "energy": Range(0.8, 0.999), "merge_energy": Range(0.8, 0.999)},
)
def unsc_paper(
    problem: Problem,
    *,
    lr: float = 0.04,
    energy: float = 0.97,
    merge_energy: float = 0.99,
    max_passes: int = 25,
    targets: str = "hard",
) -> Forgotten:
    """Source: Chen, Zhu, Yu, Zhou, "Machine Unlearning via Null Space Calibration", IJCAI 2024.

    Mechanism: SGD moves forgotten samples to the original network's next best class, projected to directions in which
    no layer's retained inputs lie.

    Data: forgotten and retained.

    Published: learning rate 0.04 and 25 epochs for CIFAR-10 and CIFAR-100 (0.03 and 15 for SVHN, 0.0005 and 15 for
    FashionMNIST), batches of 512, energy above 0.97, no weight decay. `targets="random"` is row IV of its ablation.

    Departures: batches have a sixteenth of the forgotten samples, 16 to 128; the run stops early when the class is
    forgotten on held-out samples or retained predictions have moved by a KL of 1 nat. Where no direction is free the
    method has nothing to do and says so.
    """
    settings = {"lr": lr, "energy": energy, "merge_energy": merge_energy, "max_passes": max_passes, "targets": targets}
    return carried_out(problem, step="paper", **settings)
