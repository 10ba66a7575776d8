"""Where memory runs out, the same work is done in smaller pieces, and every row counts once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.collect import RowBudget, collect
from unsc.errors import OutOfMemory
from unsc.layers import find_layers, observe
from unsc.logits import all_logits
from unsc.memory import in_pieces

ERRORS = [
    torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:1] . DefaultCPUAllocator: can't allocate memory: you tried to ..."),
    RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."),
    MemoryError(),
]


@pytest.mark.parametrize("error", ERRORS, ids=["gpu", "cpu", "windows", "python"])
@pytest.mark.parametrize("most", [1, 2, 3, 7, 100])
def test_all_of_the_work_is_done_once_in_order(error: Exception, most: int) -> None:
    def work(start: int, stop: int) -> list[int]:
        if stop - start > most:
            raise error
        return list(range(start, stop))

    done = list(in_pieces(29, 12, work))
    assert [i for piece in done for i in piece] == list(range(29))
    assert max(map(len, done)) <= min(12, most)


def test_work_that_cannot_be_cut_is_an_error_with_what_was_said() -> None:
    def work(start: int, stop: int) -> None:
        raise ERRORS[0]

    with pytest.raises(OutOfMemory, match=r"single sample.*2\.00 GiB.*parameters="):
        list(in_pieces(8, 8, work))


def test_other_errors_are_not_taken_for_want_of_memory() -> None:
    def work(start: int, stop: int) -> None:
        raise RuntimeError("shapes do not fit")

    with pytest.raises(RuntimeError, match="shapes do not fit"):
        list(in_pieces(8, 8, work))


class Greedy(nn.Module):
    """A layer without weights that fails on more than `most` samples, as if its result did not fit into memory."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > self.most:
            raise ERRORS[0]
        return x.tanh()


def network(before: int, after: int) -> nn.Sequential:
    """Its second layer is used twice, with a bottleneck of memory before the second time."""
    torch.manual_seed(0)
    again = nn.Conv2d(3, 3, 3, padding=1)
    head = [nn.Flatten(), nn.Linear(75, 4)]
    return nn.Sequential(nn.Conv2d(1, 3, 2), again, Greedy(before), again, Greedy(after), *head).double().eval()


def batches() -> list[Batch]:
    x = torch.randn(37, 1, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return [Batch(part, torch.zeros(len(part), dtype=torch.long)) for part in x.split(16)]


@pytest.mark.parametrize(("before", "after"), [(100, 5), (7, 100), (7, 3), (3, 1), (1, 7)])
def test_moments_are_those_of_all_rows_wherever_a_forward_pass_fails(before: int, after: int) -> None:
    """Layers before the failure were received already, and are not received again."""
    enough, scarce = network(100, 100), network(before, after)
    layers = find_layers(enough).layers
    expected, found = collect(enough, layers, batches()), collect(scarce, layers, batches())
    for layer in layers:
        assert found[layer.name].count == expected[layer.name].count
        torch.testing.assert_close(found[layer.name].dense(), expected[layer.name].dense(), rtol=1e-10, atol=1e-10)


def test_with_a_budget_every_sample_still_gives_its_rows() -> None:
    """A layer of one row a sample is taken whole, so that the drawn moments are the exact ones."""
    enough, scarce = network(100, 100), network(5, 2)
    layers = find_layers(enough).layers
    found = collect(scarce, layers, batches(), rows=RowBudget(37, torch.Generator(), per_column=1))
    torch.testing.assert_close(found["6"].dense(), collect(enough, layers, batches())["6"].dense())


def test_a_network_that_cannot_take_one_sample_is_an_error() -> None:
    with pytest.raises(OutOfMemory, match="memory ran out with a single sample"):
        collect(network(0, 1), find_layers(network(1, 1)).layers, batches())


def test_rows_that_do_not_fit_come_in_smaller_chunks() -> None:
    """What takes the rows may fail as well as what makes them."""
    model = network(100, 100)
    layers, taken = find_layers(model).layers[:1], list[Tensor]()

    def receive(layer: object, rows: Tensor) -> None:
        if rows.shape[1] > 60:  # two samples of 25 positions
            raise ERRORS[1]
        taken.append(rows)

    with observe(model, layers, receive):
        model(batches()[0].inputs)
    whole = list[Tensor]()
    with observe(model, layers, lambda layer, rows: whole.append(rows)):
        model(batches()[0].inputs)
    assert torch.equal(torch.cat(taken, dim=1), torch.cat(whole, dim=1))


def test_logits_are_those_of_a_pass_that_fits() -> None:
    whole = batches()[0]
    with torch.no_grad():
        torch.testing.assert_close(all_logits(network(7, 3), whole), all_logits(network(100, 100), whole))
