"""A figure in one file. Put such a file into `src/unsc/bench/figures/`, and it is found there by itself.

`unsc bench figures` then measures it, once for each data set, and `unsc bench render` draws it from the numbers. No
other file has to know its name.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from unsc.batches import Batch
from unsc.bench.figures.shared.figure import FIGURES, Content, NetworkFigure
from unsc.bench.figures.shared.subject import Subject
from unsc.compare.canvas import canvas, save
from unsc.logits import all_logits
from unsc.models import working_copy

BINS = 10


def measure(subject: Subject) -> Content:
    """How sure three networks are of their predictions on forgotten test samples: shares by confidence."""
    forgotten = subject.scenario.parts_of("test", subject.trial.classes)["forget_test"]
    networks = {"original": subject.original, "unlearned": subject.unlearned, "retrained": subject.retrained}
    return {"samples": len(forgotten), "shares": {name: shares(net, forgotten) for name, net in networks.items()}}


@torch.no_grad()
def shares(model: nn.Module, batch: Batch) -> list[float]:
    """The share of samples whose highest probability is in each tenth of [0, 1]."""
    working = working_copy(model)
    confidence = all_logits(working, batch.for_model(working)).softmax(dim=1).max(dim=1).values.cpu()
    return (torch.histc(confidence, BINS, 0.0, 1.0) / len(batch)).tolist()


def draw(content: Content, path: Path) -> None:
    """A line for each network. Everything that is drawn comes from `content`: no network is needed any more."""
    figure = canvas(5.0, 3.4)
    axes = figure.add_subplot()
    for name, values in content["shares"].items():
        axes.plot([(i + 0.5) / len(values) for i in range(len(values))], values, marker="o", label=name)
    axes.set(xlabel="highest probability", ylabel="share of samples", xlim=(0, 1), ylim=(0, 1.05))
    axes.set_title(f"Forgotten test samples (n = {content['samples']:,})", fontsize=10)
    axes.legend(frameon=False)
    save(figure, path)


FIGURES.add(NetworkFigure("confidence", measure, draw))
