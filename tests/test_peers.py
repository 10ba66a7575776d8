"""Two and four processes do what one does, and none of them is left waiting when another fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rank_groups
import rank_tasks as tasks
import torch
from rank_groups import KILLED, Failure, Results, Task, of_task, run_ranks
from safetensors.torch import save_file

from unsc import peers

alone = rank_groups.alone


@pytest.fixture(scope="module", params=[2, 4])
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """All tasks, carried out by one group of processes after another."""
    every = (*tasks.SAME, *tasks.OTHERS, *tasks.FAILING, tasks.everybody_is_well_after_all_that)
    chosen = tasks.ON_FOUR if request.param == 4 else every
    return run_ranks(chosen, request.param, tmp_path_factory.mktemp(f"ranks-{request.param}"))


def _same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    torch.testing.assert_close(found["outputs"], expected["outputs"], rtol=0, atol=1e-4)
    for name in ("steps", "stopped"):
        assert found[name] == expected[name]
    for name in ("retained_kl", "drift_max", "forget_acc"):
        assert found[name] == pytest.approx(expected[name], rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("task", tasks.SAME, ids=lambda task: task.__name__)
def test_ranks_reach_what_one_process_does(task: Task, results: Results, alone: Callable[[Task], Any]) -> None:
    for found in of_task(results, task):
        assert not isinstance(found, Failure), found
        _same(found, alone(task))


def test_in_float32_too_predictions_are_those_of_one_process(results: Results, alone: Callable[[Task], Any]) -> None:
    for found in of_task(results, tasks.forgets_in_float32):
        torch.testing.assert_close(found, alone(tasks.forgets_in_float32), rtol=0, atol=1e-4)


def test_all_ranks_have_the_very_same_result(results: Results) -> None:
    first, *others = of_task(results, tasks.forgets_a_class)
    assert all(torch.equal(first["outputs"], other["outputs"]) for other in others)


def test_moments_are_summed_and_subspaces_shared_out(results: Results, alone: Callable[[Task], Any]) -> None:
    expected = alone(tasks.collects_moments)
    for found in of_task(results, tasks.collects_moments):
        assert found["samples"] == expected["samples"] and found["ranks"] == expected["ranks"]
        torch.testing.assert_close(found["projectors"], expected["projectors"], rtol=0, atol=1e-4)


def test_a_distributed_model_comes_back_as_one(results: Results, alone: Callable[[Task], Any]) -> None:
    for kind, found in of_task(results, tasks.takes_a_distributed_model):
        assert kind == "DistributedDataParallel"
        _same(found, alone(tasks.forgets_a_class))


def test_one_rank_may_work_alone(results: Results) -> None:
    assert of_task(results, tasks.one_rank_works_alone)[0] < 50


def test_what_is_drawn_does_not_depend_on_the_number_of_ranks(results: Results, alone: Callable[[Task], Any]) -> None:
    drawn = of_task(results, tasks.ranks_draw_the_same)
    assert drawn == [alone(tasks.ranks_draw_the_same)] * len(drawn)


def test_a_rank_that_runs_out_of_memory_takes_smaller_pieces(results: Results) -> None:
    # Of smaller pieces other rows are drawn: the result is as good, and on all ranks the same.
    first, *others = of_task(results, tasks.memory_runs_out_on_one_rank)
    assert first[0] == "forgotten"
    assert all(torch.equal(first[1], weights) for _, weights in others)


@pytest.mark.parametrize(("task", "said"), tasks.FAILING.items(), ids=lambda x: getattr(x, "__name__", ""))
def test_every_rank_ends_with_the_error_of_one(task: Task, said: str, results: Results) -> None:
    for found in of_task(results, task):
        assert isinstance(found, Failure) and said in found.message, found


def test_the_others_learn_which_rank_failed(results: Results) -> None:
    found = of_task(results, tasks.a_broken_sample_that_one_rank_reads)
    assert [f.kind for f in found] == ["RankFailed", "InvalidData", *["RankFailed"] * (len(found) - 2)]
    assert all("rank 1 failed" in f.message for f in found if f.kind == "RankFailed")


@pytest.mark.parametrize("count", [2, 4])
def test_nobody_waits_for_a_rank_that_was_killed(count: int, tmp_path: Path) -> None:
    first, killed, *others = run_ranks([tasks.a_rank_is_killed], count, tmp_path)["a_rank_is_killed"]
    assert killed == KILLED
    assert all(found.kind == "RankFailed" and "lost the others" in found.message for found in (first, *others))


def test_ranks_are_in_step_after_errors(results: Results) -> None:
    found = of_task(results, tasks.everybody_is_well_after_all_that)
    assert found == [list(range(len(found)))] * len(found)


def test_one_process_shares_with_nobody() -> None:
    with peers.joined():
        assert (peers.count(), peers.rank()) == (1, 0)
        assert peers.total_of(2, 3) == [2, 3]
        assert list(peers.mine("abc")) == ["a", "b", "c"]
        assert torch.equal(peers.everyones(3, lambda chosen: chosen * 2), torch.tensor([0, 2, 4]))


def test_work_is_shared_out_by_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "count", lambda: 2)
    costs = {"a": 5.0, "b": 4.0, "c": 3.0, "d": 2.0}
    assert list(peers.owners(costs)) == list(costs)
    loads = [sum(costs[k] for k, owner in peers.owners(costs).items() if owner == rank) for rank in range(2)]
    assert loads == [7.0, 7.0]


MODULE = """
import os
import torch
from torch import nn
from torch.utils.data import TensorDataset

def data():
    if os.environ.get("RANK") == os.environ.get("BROKEN", "none"):
        raise OSError("the disk is gone")
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(90) % 3
    return TensorDataset(torch.eye(3)[labels] * 3 + torch.rand(90, 3, generator=generator), labels)

def build():
    return nn.Linear(3, 3)
"""


def test_torchrun_shares_a_command(tmp_path: Path) -> None:
    """One rank prints and writes; a command that is not shared is refused on all."""
    (tmp_path / "mine.py").write_text(MODULE)
    save_file({"weight": 4 * torch.eye(3), "bias": torch.zeros(3)}, tmp_path / "mine.safetensors")
    source = Path(peers.__file__).parents[1]
    variables = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}

    def torchrun(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "unsc"]
        return subprocess.run(
            [*launch, *words], cwd=tmp_path, env=variables | more, capture_output=True, text=True, timeout=300
        )

    wanted = [
        "--model",
        "mine:build",
        "--weights",
        "mine.safetensors",
        "--data",
        "mine:data",
        "--classes",
        "2",
        "--out",
        "out",
        "--json",
    ]
    done = torchrun("forget", *wanted)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)  # once, not by each rank
    assert (tmp_path / "out" / "model.safetensors").exists()
    failed = torchrun("forget", *wanted[:-3], "--out", "other", BROKEN="1")
    assert failed.returncode != 0 and "the disk is gone" in failed.stderr
    assert not (tmp_path / "other").exists()
    refused = torchrun("methods")
    assert refused.returncode != 0 and "only forget shares its work" in refused.stderr
