"""Retained samples that are learned beside records whose labels were wrong.

A wrong label has shaped the predictions around its record too. To learn the right one there alone leaves that harm;
samples that stay, under the labels that they have, undo it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch.utils.data import ConcatDataset, Dataset, Subset

from unsc.datasets import size_of
from unsc.options import CompletedOptions
from unsc.targets import as_rule
from unsc.task import Samples, read_forgotten


def with_others(samples: Samples, forget: Dataset[Any], retain: Dataset[Any], options: CompletedOptions) -> Samples:
    """`samples` of the records `forget` and of `retain`, with as many others to learn as the rule for targets wants."""
    count = as_rule(options.targets).beside * size_of(forget)
    if not count:
        return samples
    generator = torch.Generator().manual_seed(options.seed)
    chosen = torch.cat(list(samples.retain_fit.positions_drawn(count, count, generator)))
    both = ConcatDataset([forget, Subset(retain, chosen.tolist())])
    learned = read_forgotten(both, None, label_key=options.label_key, keep=options.sample_bytes)
    return replace(samples, forget_fit=learned, beside=len(chosen))
