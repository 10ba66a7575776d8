"""Networks that FSDP2 has sharded: two and four processes do what one does, and none of them holds all weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import rank_groups
import rank_tasks
import sharded_tasks as tasks
import torch
from rank_groups import Failure, Results, Task, of_task, run_ranks

alone = rank_groups.alone

ON_FOUR = (
    tasks.batches_smaller_than_the_group,
    tasks.by_the_papers_step,
    tasks.rows_that_do_not_divide,
    tasks.kinds_of_convolutions,
    tasks.kinds_that_read_texts,
)
"""Tasks for which it matters that there are more ranks than two."""


@pytest.fixture(scope="module", params=[2, 4])
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """All tasks, carried out by one group of processes after another."""
    chosen = ON_FOUR if request.param == 4 else (*tasks.SAME, *tasks.OTHERS, *tasks.FAILING)
    return run_ranks(chosen, request.param, tmp_path_factory.mktemp(f"sharded-{request.param}"))


def same(found: Any, expected: dict[str, Any]) -> None:
    assert not isinstance(found, Failure), found
    torch.testing.assert_close(found["outputs"], expected["outputs"], rtol=0, atol=1e-4)
    for name in ("steps", "stopped"):
        assert found[name] == expected[name]
    for name in ("retained_kl", "drift_max", "forget_acc"):
        assert found[name] == pytest.approx(expected[name], rel=1e-3, abs=1e-6)


@pytest.mark.filterwarnings("ignore::unsc.NotForgottenWarning")
@pytest.mark.parametrize("task", tasks.SAME, ids=lambda task: task.__name__)
def test_shards_come_to_what_one_process_does(task: Task, results: Results, alone: Callable[[Task], Any]) -> None:
    for found in of_task(results, task):
        same(found, alone(task))


def test_no_rank_ever_has_the_whole(results: Results) -> None:
    """Each of two ranks has half of the weights, at every step and in the result; the head alone, whose
    forgotten output is settled at the end, is gathered."""
    half = sum(p.numel() for p in rank_tasks.model().parameters()) // 2
    for found in of_task(results, tasks.what_is_held):
        assert not isinstance(found, Failure), found
        assert found["steps"] and set(found["steps"]) == {(True, half)}
        assert found["result"] == (True, half)
        assert set(found["gathered"]) <= {(4, 128), (4,)}
        assert found["original stays"] and found["alike"]


def test_weights_that_a_pass_left_whole_are_known_as_shards(results: Results, alone: Callable[[Task], Any]) -> None:
    for found in of_task(results, tasks.a_network_that_was_used):
        same(found, alone(tasks.a_class))


def test_half_precision_is_rounded_once(results: Results) -> None:
    for found in of_task(results, tasks.in_half_precision):
        status, kinds, moved = found
        assert status == "forgotten" and set(kinds) == {"torch.bfloat16"} and moved


def test_a_sharded_result_is_saved_whole(results: Results) -> None:
    assert all(found is True for found in of_task(results, tasks.is_saved_whole))


@pytest.mark.parametrize(("task", "said"), tasks.FAILING.items(), ids=lambda x: getattr(x, "__name__", ""))
def test_every_rank_ends_with_the_error_of_one(task: Task, said: str, results: Results) -> None:
    found = of_task(results, task)
    assert all(isinstance(f, Failure) and said in f.message for f in found), found
    assert [f.kind == "RankFailed" for f in found] == [True, False]


def test_a_rank_that_fails_inside_a_pass_ends_them_all(tmp_path_factory: pytest.TempPathFactory) -> None:
    """It cannot be told to the others, which wait for its weights, but its end is noticed."""
    folder = tmp_path_factory.mktemp("in-a-pass")
    first, second = run_ranks([tasks.memory_runs_out_in_a_pass], 2, folder)["memory_runs_out_in_a_pass"]
    assert first.kind == "RankFailed" and "lost the others" in first.message
    assert second.kind == "OutOfMemory" and "on rank 1" in second.message
