"""From what a user brings to a request with its training data: checked, labelled, and ready to be read."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from unsc import peers
from unsc.batches import Batch
from unsc.datasets import Source, as_source, batches_of, offered_labels, read, read_labels
from unsc.errors import InvalidData, InvalidRequest
from unsc.forms import Collate
from unsc.loading.in_workers import in_workers
from unsc.models import count_classes, digest_of
from unsc.names import numbered
from unsc.options import Options
from unsc.progress import Progress, quiet
from unsc.request import Request, make_request
from unsc.streams import is_stream, kept_of
from unsc.task import MOST_CHECKED_OF_CLASS


@dataclass(frozen=True)
class Training:
    """Training data, with what is to be forgotten of it."""

    source: Source
    request: Request
    labels: Tensor
    """int64 (n,)."""


@dataclass(frozen=True)
class Asked:
    """What a user asks for, of a model: either classes or indices, as in `forget`."""

    model: nn.Module
    original: nn.Module
    """A working copy of the model."""
    words: Mapping[str, object]
    """`classes`, `indices` and `new_labels` as they were given."""
    gone: Iterable[int] = ()

    def request(self, data: object, probe: Batch, label_key: str | None) -> Request:
        """Checked against what the model says of a few samples; names of classes are looked up in the `data`."""
        numbers = dict(self.words)
        for name in ("classes", "new_labels"):
            if numbers.get(name) is not None:
                numbers[name] = numbered(numbers[name], model=self.model, data=[data], label_key=label_key)
        return make_request(count_classes(self.original, probe), gone=self.gone, **numbers)


@contextmanager
def opened(
    data: Any,
    asked: Asked,
    options: Options,
    *,
    labels: Iterable[int] | None = None,
    collate_fn: Collate | None = None,
    progress: Progress = quiet,
) -> Generator[Training, None, None]:
    """The training data, and the processes that read it, which end with the context."""
    if is_stream(data):
        if labels is not None or options.num_workers:
            raise InvalidRequest(
                "an iterable data set is read once, whatever is known of it; leave labels and num_workers out (a "
                "DataLoader of it has num_workers of its own)"
            )
        yield _agreed(_of_stream(data, asked, options, collate_fn), asked, options)
        return
    plain = as_source(data, asked.model, label_key=options.label_key, collate_fn=collate_fn)
    if len(plain) == 0:
        raise InvalidData("the data set is empty; give the training set the model was trained on")
    # Before anything is read that takes long.
    request = asked.request(plain, read(plain, range(min(4, len(plain)))), options.label_key)
    request.check_positions(len(plain))
    with in_workers(plain.dataset, options.num_workers) as made:
        source = replace(plain, dataset=made)
        known = _given(labels, len(plain)) if labels is not None else offered_labels(plain)
        every = read_labels(source, progress=progress) if known is None else known
        request.check_new_labels(every)
        yield _agreed(Training(source, request, every), asked, options)


def _given(labels: Iterable[int], size: int) -> Tensor:
    try:
        found = torch.as_tensor(labels if isinstance(labels, Tensor) else list(labels))
    except (TypeError, ValueError, RuntimeError) as e:
        raise InvalidData(f"labels={labels!r:.80}; give one whole number for each of {size} samples") from e
    if found.shape != (size,) or found.dtype == torch.bool or found.is_floating_point() or found.is_complex():
        raise InvalidData(
            f"labels have shape {tuple(found.shape)} and type {found.dtype}; give one whole number for each of {size} "
            "samples"
        )
    return found.long()


def _of_stream(data: Any, asked: Asked, options: Options, collate_fn: Collate | None) -> Training:
    """What is kept of an iterable data set; it is read once, from beginning to end."""
    if asked.words.get("indices") is not None:
        raise InvalidRequest(
            "records are found by their positions, and an iterable data set has none; give a map-style data set, whose "
            "len() and [i] work"
        )
    batches: Iterator[Batch] = batches_of(data, asked.model, label_key=options.label_key, collate_fn=collate_fn)
    first = next(batches, None)
    if first is None:
        raise InvalidData("the data set is empty; give the training set the model was trained on")
    request = asked.request(data, first, options.label_key)
    source, labels = kept_of(
        chain([first], batches),
        going=request.classes,
        per_class=options.samples_per_class + MOST_CHECKED_OF_CLASS,
        most=options.sample_bytes,
        seed=options.seed,
    )
    return Training(source, request, labels)


def _agreed(training: Training, asked: Asked, options: Options) -> Training:
    """Training data on which all ranks agree, as on everything else that a run depends on."""
    if peers.count() > 1:
        words = re.sub(r" at 0x[0-9a-f]+", "", repr(options.to_dict()))  # a function is elsewhere in each process
        peers.agree(
            {
                "the model": digest_of(asked.model),
                "what is to be forgotten": training.request,
                "records": peers.digest(repr((training.request.records, training.request.new_labels))),
                "the options": words,
                "the number of samples": len(training.source),
                "the labels of the data": peers.digest(training.labels.numpy().tobytes()),
            }
        )
    return training
