"""From what was measured to data of ImageNet's size, with the arithmetic shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unsc.bench.speed.row import Line
from unsc.options import Options

IMAGES, CLASSES = 1_281_167, 1000
"""ImageNet's training set."""
_CHECK_SHARE, _PASSES = 0.1, 2
"""Of the forgotten samples, held out to check on; and passes over the others, at most: the defaults of `forget`."""


def exponents(lines: Sequence[Line]) -> str:
    """A table: factor by factor, what the time of preparation and of a step grows by."""
    found = {(line.noted["factor"], line.noted["quantity"]): line for line in lines}
    factors = list(dict.fromkeys(factor for factor, _ in found))
    rows = ["| factor | from | to | preparation | step |", "|---|--:|--:|--:|--:|"]
    for factor in factors:
        values = found[factor, "preparation"].noted["values"]
        cells = [f"{found[factor, quantity].value:.2f}" for quantity in ("preparation", "step")]
        rows.append(f"| {factor} | {values[0]:,} | {values[-1]:,} | {cells[0]} | {cells[1]} |")
    return "\n".join(rows)


def to_imagenet(about: dict[str, Any], lines: Sequence[Line]) -> str:
    """What one class of ImageNet takes with a network of the table, in words and numbers."""
    noted = lines[0].noted
    step, plain = noted["step"], noted["sgd"]
    batch = about["settings"]["batch_size"]
    own = IMAGES // CLASSES
    learned = own - int(_CHECK_SHARE * own)
    size = Options().completed(own).batch_size
    steps = _PASSES * -(-learned // size)
    epoch = IMAGES / batch * plain
    loop = steps * step * size / batch
    whole = noted["preparation"] + loop
    return (
        f"- **{about['settings']['title']}.** Preparation: {noted['seconds_without_samples']:.0f} s whatever the "
        f"samples, and {noted['seconds_per_sample']:.2f} s for each of {noted['samples_to_scale_to']:.0f}: "
        f"{noted['preparation']:,.0f} s. A class has {own:,} images, of which {learned:,} are learned from in batches "
        f"of {size}: at most {steps} steps in {_PASSES} passes. A step on {batch} images takes {step:.1f} s, so one on "
        f"{size} takes {step * size / batch:.0f} s, and the loop {loop:,.0f} s. Together {whole:,.0f} s. An epoch is "
        f"{IMAGES:,} / {batch} plain steps of {plain:.1f} s: {epoch:,.0f} s. One class thus takes "
        f"{whole / epoch:.4f} of an epoch, with a peak of {lines[-1].value:.1f} GiB."
    )
