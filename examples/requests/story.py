"""Three requests in sequence from a store, the retained data deleted, beside the same with all data at hand.

    python examples/requests/story.py OUT
    python examples/requests/story.py OUT --data DIR --checkpoint resnet20-12fca82f.th

The first line takes handwritten digits; the second the public ResNet-20 for CIFAR-10, with the data set's original
files in DIR. OUT gets the store, a folder for each request, and `story.json` with every figure. Times are seconds of
the processor, without imports.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from subject import Subject, digits, resnet20
from torch import nn
from torch.utils.data import Subset

import unsc
from unsc.errors import NotForgottenWarning
from unsc.logits import all_logits
from unsc.release import forget, prepare, verify
from unsc.release.asked import Asked, User
from unsc.release.keys import PrivateKey

CLASS, RECORDS, USER = 3, 20, "u-7"
SALT = "story"
T = TypeVar("T")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--canaries", type=int, default=100)
    given = parser.parse_args()
    folder = given.out.absolute()
    subject = digits(folder) if given.data is None else resnet20(folder, given.data.absolute(), given.checkpoint)
    os.chdir(folder)
    warnings.simplefilter("ignore", NotForgottenWarning)
    told = tell(subject, given.canaries)
    (folder / "story.json").write_text(json.dumps(told, indent=2) + "\n")
    print(json.dumps(told, indent=2))


def tell(subject: Subject, canaries: int) -> dict[str, Any]:
    """All of it; files go to the current folder, which is the subject's."""
    where = {"weights": "model.safetensors", "data": "train.npz", "transform": subject.transform}
    asked = requests(subject)
    reference, at_once = in_sequence(subject, asked)
    _, prepared = timed(
        lambda: prepare(subject.factory, out="store", canaries=canaries, salt=SALT, **where)  # type: ignore[arg-type]
    )
    chosen = np.concatenate([positions(subject, one) for one in asked.values()])
    subject.train.save(Path("train.npz"), np.unique(chosen))  # what stays is deleted
    key = PrivateKey.create(Path("keys/key.pem"))
    runs: dict[str, Any] = {}
    for name, one in asked.items():
        handled, seconds = timed(
            lambda one=one, name=name: forget("store", one, out=name, key=key, validation="validation.npz")
        )
        print(name, handled.entry.state, seconds, file=sys.stderr)
        runs[name] = {
            "state": handled.entry.state,
            "refused": [verdict.advice for verdict in handled.verdicts if not verdict.passed],
            "cpu_seconds": seconds,
            "cpu_seconds_with_all_data": at_once[name],
        }
    verify(list(asked), key=key.public, weights=f"{list(asked)[-1]}/model")
    last = unsc.load_model(subject.factory, f"{list(asked)[-1]}/model/model.safetensors").model
    original = unsc.load_model(subject.factory, "model.safetensors").model
    return {
        "requests": runs,
        "prepare_cpu_seconds": prepared,
        "store_bytes": sum(path.stat().st_size for path in Path("store").iterdir()),
        "left_of_train": len(np.unique(chosen)),
        "original": accuracy(subject, original),
        "from_the_store": accuracy(subject, last),
        "with_all_data": accuracy(subject, reference),
    }


def requests(subject: Subject) -> dict[str, Asked]:
    """A class, some records of several others, and all that a user has."""
    stays = np.flatnonzero(subject.train.labels.numpy() != CLASS)
    drawn = np.random.default_rng(0).choice(stays[subject.train.users[stays] != USER], RECORDS, replace=False)
    return {
        "class": Asked(classes=(str(CLASS),)),
        "records": Asked(ids=tuple(subject.train.ids[np.sort(drawn)].tolist())),
        "user": Asked(users=(User("user", USER),)),
    }


def positions(subject: Subject, asked: Asked) -> np.ndarray:
    """Where the samples of a request are; those of the class that is gone by then left out."""
    train = subject.train
    if asked.classes:
        return np.flatnonzero(train.labels.numpy() == CLASS)
    found = np.isin(train.ids, asked.ids) | np.isin(train.users, [user.value for user in asked.users])
    return np.flatnonzero(found & (train.labels.numpy() != CLASS))


def timed(work: Callable[[], T]) -> tuple[T, float]:
    began = time.process_time()
    return work(), round(time.process_time() - began, 2)


def in_sequence(subject: Subject, asked: dict[str, Asked]) -> tuple[nn.Module, dict[str, float]]:
    """What comes of the same requests, one after another, with `unsc.forget` and all data at hand; and their seconds.

    The first one's hold the loading of model and data, which the others then have.
    """
    seconds: dict[str, float] = {}
    began = time.process_time()
    network = unsc.load_model(subject.factory, "model.safetensors")
    train, validation = (
        unsc.load_data(f"{name}.npz", model=network, transform=subject.transform) for name in ("train", "validation")
    )
    left, result = np.arange(len(subject.train.ids)), network.model
    for name, one in asked.items():
        goes = positions(subject, one)
        what: dict[str, Any] = {"classes": [CLASS]}
        if not one.classes:
            what = {"indices": np.flatnonzero(np.isin(left, goes)).tolist(), "validation": validation.dataset}
        labels = subject.train.labels[left].tolist()
        result = unsc.forget(result, Subset(train.dataset, left.tolist()), labels=labels, **what)
        result.save(Path("all-data", name))
        left = left if one.classes else np.setdiff1d(left, goes)
        seconds[name], began = round(time.process_time() - began, 2), time.process_time()
    return result.model, seconds  # type: ignore[union-attr]


def accuracy(subject: Subject, model: nn.Module) -> dict[str, float]:
    """Percent of test samples that are right: of classes that stay, of the class that went, of the worst class."""
    batch = subject.test_batch
    right = (all_logits(model.eval(), batch).argmax(dim=1) == batch.labels).double() * 100
    goes = batch.labels == CLASS
    worst = min(right[batch.labels == k].mean().item() for k in batch.labels.unique().tolist() if k != CLASS)
    return {"retain": right[~goes].mean().item(), "forget": right[goes].mean().item(), "worst_class": worst}


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
