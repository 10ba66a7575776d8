"""What tests of the store share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from unsc.batches import Batch
from unsc.release.canaries import Canaries
from unsc.release.manifest import Manifest, Sample
from unsc.release.markers import Markers
from unsc.release.plan import plan_for
from unsc.release.statistics import Statistics
from unsc.release.store import Contents
from unsc.steps.together import Together


def a_manifest() -> Manifest:
    """Nine samples of three classes, two of them copies of each other, of two users and nobody."""
    samples = {f"s{i}": Sample(i % 3, f"{i:064x}") for i in range(9)}
    samples["s8"] = Sample(2, samples["s2"].fingerprint)
    columns = {"user": {"ann": ("s0", "s1"), "bob": ("s2",)}}
    return Manifest(
        "app:build", "m.safetensors", "a" * 64, "data", "", ("x", "y", "z"), (), samples, columns, {"unsc": "0"}
    )


def some_statistics() -> Statistics:
    plan = plan_for((3, 3, 3), "salt", fit=9, check=9, sensitivity=9, rows_per_column=16)
    moment = torch.eye(4)[None]
    samples = {"fit": 7, "check": 2, "fisher": 2}
    return Statistics(plan, 64, 1.5, {"fc": moment}, {"fc": 2 * moment}, {"fc": 0.25}, samples, Together.alone(1))


@pytest.fixture
def contents() -> Contents:
    canaries = Canaries(Batch(torch.arange(6.0).view(3, 2), torch.tensor([0, 1, 2])), ("s0", "s1", "s2"))
    return Contents(a_manifest(), some_statistics(), canaries, Markers("salt", ()))


@pytest.fixture
def manifest() -> Manifest:
    return a_manifest()


@pytest.fixture
def damage() -> Callable[[bytes], list[bytes]]:
    """A file's bytes cut short, one of them changed, and other files altogether."""

    def damaged(content: bytes) -> list[bytes]:
        middle = len(content) // 2
        changed = bytes([content[middle] ^ 1])
        return [content[:middle], content[:middle] + changed + content[middle + 1 :], b"", b"{}", b"[" * 100_000]

    return damaged
