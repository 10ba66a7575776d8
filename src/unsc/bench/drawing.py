"""Pictures of results."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from unsc.compare.canvas import canvas, save


def class_accuracy(
    path: Path, accuracy: Mapping[str, Mapping[int, float]], *, forgotten: Collection[int], title: str = ""
) -> None:
    """Bars of each model's accuracy in percent, class by class; forgotten classes are shaded."""
    classes = sorted({k for of_model in accuracy.values() for k in of_model})
    figure = canvas(max(7.0, 0.9 * len(classes)), 4.0)
    axes = figure.add_subplot()
    width = 0.8 / len(accuracy)
    colours = ("#b8bcc2", "#6f7680", "#d9a441", "#7fb2d9", "#12508c")
    for i, (name, of_model) in enumerate(accuracy.items()):
        places = [c + (i - (len(accuracy) - 1) / 2) * width for c in range(len(classes))]
        axes.bar(places, [of_model.get(k, 0.0) for k in classes], width, label=name, color=colours[i % len(colours)])
    for c, k in enumerate(classes):
        if k in forgotten:
            axes.axvspan(c - 0.5, c + 0.5, color="#c0392b", alpha=0.12, zorder=0)
            axes.text(c, 103, "forgotten", ha="center", color="#c0392b", fontsize=9)
    axes.set_xticks(range(len(classes)), [str(k) for k in classes])
    axes.set(xlabel="class", ylabel="test accuracy (%)", ylim=(0, 110), xlim=(-0.5, len(classes) - 0.5))
    axes.set_title(title, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=len(accuracy), frameon=False, fontsize=9)
    save(figure, path)
