"""Where forgotten samples go: the pseudo-labels that the original gives them, and what a retrained network says."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.bench.figures.shared.figure import FIGURES, Content, NetworkFigure
from unsc.bench.figures.shared.subject import Subject
from unsc.compare.canvas import canvas, save
from unsc.datasets import read
from unsc.logits import all_logits
from unsc.models import working_copy
from unsc.request import Request
from unsc.targets import pseudo_labels


def measure(
    original: nn.Module, retrained: nn.Module, forgotten: Batch, *, classes: tuple[int, ...], num_classes: int
) -> Content:
    """Shares of the classes, by the paper's rule and by the retrained network, on `forgotten` training samples."""
    removed = Request.for_classes(classes, num_classes).removed(forgotten.labels)
    ours = pseudo_labels(_logits(original, forgotten), removed.cpu(), targets="hard").argmax(dim=1)
    theirs = _logits(retrained, forgotten).argmax(dim=1)
    return {
        "forgotten": list(classes),
        "samples": len(forgotten),
        "pseudo_labels": _shares(ours, num_classes),
        "retrained": _shares(theirs, num_classes),
        "agreement": (ours == theirs).double().mean().item(),
    }


def of_subject(subject: Subject) -> Content:
    """On all training samples that are forgotten."""
    classes, data = subject.trial.classes, subject.scenario
    forgotten = read(data.train, data.positions("train", classes)["forget_train"].tolist())
    return measure(subject.original, subject.retrained, forgotten, classes=classes, num_classes=data.num_classes)


def draw(content: Content, path: Path) -> None:
    """Two bars for each class that stays; of more than 20 classes those that are given most often."""
    rows = {"pseudo-label": content["pseudo_labels"], "retrained network's prediction": content["retrained"]}
    most = [max(shares) for shares in zip(*rows.values(), strict=True)]
    shown = [k for k in range(len(most)) if most[k] > 0 or k not in content["forgotten"]]
    shown = sorted(sorted(shown, key=lambda k: -most[k])[:20])
    figure = canvas(max(6.0, 0.55 * len(shown)), 3.6)
    axes = figure.add_subplot()
    for i, ((name, shares), colour) in enumerate(zip(rows.items(), ("#12508c", "#b8bcc2"), strict=True)):
        places = [c + (i - 0.5) * 0.4 for c in range(len(shown))]
        axes.bar(places, [100 * shares[k] for k in shown], 0.4, label=name, color=colour)
    axes.set_xticks(range(len(shown)), [str(k) for k in shown])
    left_out = len(most) - len(content["forgotten"]) - len(shown)
    axes.set_xlabel(f"class ({left_out} more are rarer)" if left_out > 0 else "class")
    axes.set_ylabel("share of forgotten samples (%)")
    classes = ", ".join(map(str, content["forgotten"]))
    axes.set_title(
        f"Training samples of class {classes} (n = {content['samples']:,}): both agree on "
        f"{100 * content['agreement']:.1f} %",
        fontsize=10,
        wrap=True,
    )
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    save(figure, path)


@torch.no_grad()
def _logits(model: nn.Module, batch: Batch) -> Tensor:
    working = working_copy(model)
    return all_logits(working, batch.for_model(working)).cpu()


def _shares(predicted: Tensor, num_classes: int) -> list[float]:
    return (torch.bincount(predicted, minlength=num_classes).double() / len(predicted)).tolist()


FIGURES.add(NetworkFigure("pseudo", of_subject, draw))
