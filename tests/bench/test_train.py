"""A training run learns, stops early, and goes on after an interruption as if there had been none."""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, Subset, TensorDataset

from unsc.bench.datasets import Split
from unsc.bench.networks import digits_cnn
from unsc.bench.train import Protocol, Trained, train
from unsc.errors import Diverged, InvalidData, InvalidRequest

SHORT = Protocol(epochs=4, batch_size=64, lr=0.05, schedule="one-cycle", augmentation="crop-flip")


def new() -> nn.Module:
    """A small network with all that has a state: batch norm, and dropout before pooling."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(1, 6, 3),
            nn.BatchNorm2d(6),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.BatchNorm1d(54),
            nn.Linear(54, 10),
        )


@pytest.fixture(scope="module")
def parts(digits: Split) -> tuple[Dataset, Dataset]:
    return Subset(digits.train, range(300)), Subset(digits.train, range(300, 400))


def state(model: nn.Module) -> dict[str, Tensor]:
    return {name: t.clone() for name, t in model.state_dict().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


class Killed(Exception):
    """Stands in for a process that ends in the middle of an epoch."""


def killed_after(steps: int) -> Callable[[str, int], Any]:
    @contextmanager
    def progress(description: str, total: int) -> Iterator[Callable[[], None]]:
        left = iter(range(steps))

        def advance() -> None:
            if next(left, None) is None:
                raise Killed

        yield advance

    return progress


def test_it_learns_and_logs(digits: Split) -> None:
    lines: list[str] = []
    protocol = Protocol(epochs=3, batch_size=32, lr=0.1, schedule="one-cycle")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = digits_cnn(width=0.5)
    made = train(model, digits.train, digits.test, protocol, log=lines.append)
    assert made.history[-1].validation_acc is not None and made.history[-1].validation_acc > 0.9
    with torch.no_grad():
        hits = (made.model(digits.test.tensors[0]).argmax(dim=1) == digits.test.tensors[1]).float().mean().item()
    assert hits == pytest.approx(made.history[-1].validation_acc, abs=0.003)
    assert not made.model.training
    assert all(p.is_contiguous() for p in made.model.parameters())
    assert [line.split(":")[0] for line in lines] == ["epoch 1", "epoch 2", "epoch 3"]
    assert f"validation {100 * made.history[-1].validation_acc:.2f} %" in lines[-1]


PATIENT = Protocol(epochs=5, batch_size=64, lr=0.05, milestones=(2, 3), patience=4, augmentation="crop")


@pytest.mark.parametrize("protocol", [SHORT, PATIENT], ids=["one-cycle", "steps"])
@pytest.mark.parametrize("kills", [[3], [7], [5, 10, 2], [12, 0]])
def test_a_killed_run_ends_with_the_same_weights(
    tmp_path: Path, parts: tuple[Dataset, Dataset], protocol: Protocol, kills: list[int]
) -> None:
    """Bit for bit, wherever and however often it was killed: 5 steps are an epoch."""
    whole = train(new(), *parts, protocol, seed=7)
    path = tmp_path / "run.pt"
    for steps in kills:
        torch.manual_seed(steps)  # what happens outside does not matter
        with pytest.raises(Killed):
            train(new(), *parts, protocol, seed=7, checkpoint=path, progress=killed_after(steps))
    lines: list[str] = []
    resumed = train(new(), *parts, protocol, seed=7, checkpoint=path, log=lines.append)
    assert same(state(resumed.model), state(whole.model))
    timeless = {"seconds": 0, "cpu_seconds": 0}
    assert [replace(e, **timeless) for e in resumed.history] == [replace(e, **timeless) for e in whole.history]
    assert resumed.cost.seconds == sum(e.seconds for e in resumed.history)  # of all epochs, not of the last few
    assert ("resuming from" in lines[0]) == (sum(k // 5 for k in kills) > 0)
    again = train(new(), *parts, protocol, seed=7, checkpoint=path, progress=killed_after(0))
    assert same(state(again.model), state(whole.model))


def test_seed_and_nothing_else_decides(parts: tuple[Dataset, Dataset]) -> None:
    one = train(new(), *parts, SHORT, seed=1)
    torch.manual_seed(99)
    before = torch.get_rng_state()
    assert same(state(train(new(), *parts, SHORT, seed=1).model), state(one.model))
    assert torch.equal(torch.get_rng_state(), before)
    assert not same(state(train(new(), *parts, SHORT, seed=2).model), state(one.model))


def test_the_form_of_the_data_does_not_matter(parts: tuple[Dataset, Dataset]) -> None:
    """A subset, tensors and a list of pairs with the same samples train the same network."""
    subset = parts[0]
    pairs = [subset[i] for i in range(300)]
    tensors = TensorDataset(torch.stack([x for x, _ in pairs]), torch.stack([y for _, y in pairs]))
    states = [state(train(new(), data, None, SHORT).model) for data in (subset, tensors, pairs)]  # type: ignore[arg-type]
    assert same(states[0], states[1]) and same(states[0], states[2])


class Scripted(nn.Module):
    """Predicts class 0 for as many validation samples as a script says for each epoch; it cannot learn more."""

    def __init__(self, script: list[int]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2))
        self.register_buffer("epochs", torch.tensor(-1))
        self.script = script

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.epochs += 1
            return self.weight.expand(len(x), 2)
        right = torch.arange(len(x)) < self.script[int(self.epochs)]
        return torch.stack([right.float(), 1 - right.float()], dim=1)


@pytest.mark.parametrize(
    ("script", "ends", "best"),
    [
        ([3, 5, 5, 4, 9, 9, 9, 9], 4, 1),  # two epochs after the second nothing was better
        ([3, 2, 5, 1, 6, 6, 5, 9], 7, 4),
        ([1, 2, 3, 4, 5, 6, 7, 8], 8, 7),
        ([0, 0, 0, 0, 0, 0, 0, 0], 3, 0),
    ],
)
def test_early_stopping_gives_the_best_epoch(script: list[int], ends: int, best: int) -> None:
    data = TensorDataset(torch.zeros(10, 1), torch.zeros(10, dtype=torch.int64))
    made = train(Scripted(script), data, data, Protocol(epochs=8, batch_size=10, patience=2))
    assert len(made.history) == ends
    assert int(made.model.get_buffer("epochs")) == best
    assert [round(10 * e.validation_acc) for e in made.history if e.validation_acc is not None] == script[:ends]
    last = train(Scripted(script), data, data, Protocol(epochs=8, batch_size=10))
    assert (len(last.history), int(last.model.get_buffer("epochs"))) == (8, 7)


def test_statistics_fit_evaluation_mode(parts: tuple[Dataset, Dataset]) -> None:
    """Of a network with dropout before pooling: those of the training images with dropout off."""
    model = train(new(), parts[0], None, SHORT).model
    images = torch.stack([parts[0][i][0] for i in range(300)])
    with torch.no_grad():
        met = nn.Sequential(*list(model.children())[:6])(images)
    norm = model.get_submodule("6")
    assert torch.allclose(norm.get_buffer("running_mean"), met.mean(dim=0), atol=0.05)
    assert torch.allclose(norm.get_buffer("running_var").mean(), met.var(dim=0).mean(), rtol=0.1)


def test_a_last_batch_of_one_is_left_out(digits: Split) -> None:
    made = train(new(), Subset(digits.train, range(65)), None, replace(SHORT, epochs=1))
    assert len(made.history) == 1


@pytest.fixture
def started(tmp_path: Path, parts: tuple[Dataset, Dataset]) -> Path:
    path = tmp_path / "run.pt"
    with pytest.raises(Killed):
        train(new(), *parts, SHORT, checkpoint=path, progress=killed_after(7))
    return path


def test_another_runs_checkpoint_is_refused(started: Path, parts: tuple[Dataset, Dataset], digits: Split) -> None:
    """With what differs, on both sides; and it stays as it is."""
    content = started.read_bytes()
    data, held_out = parts

    def attempt(model: nn.Module, a: Dataset, b: Dataset | None, protocol: Protocol, seed: int = 0) -> Trained:
        return train(model, a, b, protocol, seed=seed, checkpoint=started)

    other = Subset(digits.train, range(1, 301))
    darker = Subset(TensorDataset(digits.train.tensors[0] - 0.1, digits.train.tensors[1]), range(300))
    cases: list[tuple[tuple[Any, ...], str]] = [
        ((digits_cnn(), *parts, SHORT), r"network Sequential with 730 .*, here Sequential with 40,618"),
        ((new(), *parts, replace(SHORT, epochs=9, lr=0.5)), r"epochs 4, here 9; protocol's lr 0\.05, here 0\.5"),
        (
            (new(), other, held_out, SHORT),
            r"training data 300 samples of 1x8x8, digest (\w+), here 300 .* digest (?!\1)",
        ),
        ((new(), darker, held_out, SHORT), r"training data .* digest (\w+), here .* digest (?!\1)"),
        ((new(), data, None, SHORT), "validation data 100 samples .*, here none"),
        ((new(), *parts, SHORT, 5), "seed 0, here 5"),
    ]
    for arguments, message in cases:
        with pytest.raises(InvalidData, match=rf"run\.pt is a checkpoint of another run: .*{message}"):
            attempt(*arguments)
    assert started.read_bytes() == content


def test_a_damaged_or_hostile_checkpoint_is_refused(started: Path, parts: tuple[Dataset, Dataset]) -> None:
    target = started.with_name("owned")

    class Hostile:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return os.mkdir, (str(target),)

    whole = started.read_bytes()
    for content in (b"", b"hello", whole[: len(whole) // 2], pickle.dumps(Hostile())):
        started.write_bytes(content)
        with pytest.raises(InvalidData, match=r"run\.pt is not a whole checkpoint .*remove it"):
            train(new(), *parts, SHORT, checkpoint=started)
    torch.save({"state_dict": {}}, started)
    with pytest.raises(InvalidData, match="not a checkpoint of a training run"):
        train(new(), *parts, SHORT, checkpoint=started)
    assert not target.exists()


def test_a_full_disk_leaves_the_earlier_checkpoint(
    started: Path, parts: tuple[Dataset, Dataset], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the run goes on from it once there is space."""
    content = started.read_bytes()

    def full(path: Path, data: bytes) -> None:
        with path.open("wb") as f:
            f.write(data[:1000])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(InvalidRequest, match=r"cannot save the checkpoint .*run\.pt .*No space left.*intact"):
            train(new(), *parts, SHORT, checkpoint=started)
    assert started.read_bytes() == content
    assert [p.name for p in started.parent.iterdir()] == ["run.pt"]
    resumed = train(new(), *parts, SHORT, checkpoint=started)
    assert same(state(resumed.model), state(train(new(), *parts, SHORT).model))


def test_bad_input_is_refused(parts: tuple[Dataset, Dataset], digits: Split) -> None:
    data, _ = parts
    with pytest.raises(InvalidRequest, match="patience 2 needs validation data"):
        train(new(), data, None, replace(SHORT, patience=2))
    with pytest.raises(InvalidData, match="empty"):
        train(new(), Subset(digits.train, []), None, SHORT)
    with pytest.raises(InvalidData, match="1 training sample"):
        train(new(), Subset(digits.train, [0]), None, SHORT)
    with pytest.raises(InvalidData, match=r"give a map-style data set"):
        train(new(), digits.train.tensors, None, SHORT)  # type: ignore[arg-type]
    with pytest.raises(Diverged, match=r"the loss became (nan|inf) at step \d+; train with a learning rate below"):
        train(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), data, None, replace(SHORT, lr=1e38))
