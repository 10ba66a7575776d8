"""A number for each sample that its copies share, and that other samples hardly ever have: a first look for copies.

To hash every sample of a data set takes as long as several passes over it. A sum of a sample's bytes, eight at a time
and each weighted by its place, takes a small part of that. Copies have the same sum, so that hashes are only needed of
samples whose sum another one has: most often of none.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from unsc.batches import Batch, tensors_by_name

_WORD = 8
"""Bytes that are summed at once."""


def sketches(batch: Batch) -> Tensor:
    """Of every sample's inputs, int64 (n,), modulo 2^64. Labels do not count."""
    found = torch.zeros(len(batch), dtype=torch.long)
    for place, tensor in enumerate(tensors_by_name(batch.inputs)):
        words = _words(tensor.detach().cpu().reshape(len(batch), -1))
        # Odd weights lose no bit of a word, and all of them are other ones: order counts, and so does the input.
        found += (2 * place + 1) * (words @ (2 * torch.arange(words.shape[1]) + 1))
    return found


def _words(flat: Tensor) -> Tensor:
    """The bytes of each row of (n, k), filled up with zeros: int64 (n, words)."""
    own = flat.contiguous().view(torch.uint8)
    missing = -own.shape[1] % _WORD
    if missing or own.storage_offset() % _WORD:  # words begin where the memory of a word may begin
        own = F.pad(own, (0, missing)).clone()
    return own.view(torch.long)
