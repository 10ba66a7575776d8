"""Simple augmentation of a batch of images, as tensor operations."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

Augmentation: TypeAlias = Literal["none", "flip", "crop", "crop-flip"]
"""A random mirror image, a random crop after padding (for digits), or both (for photographs)."""

PADDING = 4


def augment(images: Tensor, kind: Augmentation, *, generator: torch.Generator | None = None) -> Tensor:
    """New images (n, channels, height, width), each cropped and mirrored by its own draw.

    The border is filled with zeros, the mean of normalised pixels. Without a `generator` torch's own is drawn from.
    """
    if kind == "none":
        return images
    if kind == "flip":
        mirrored = torch.rand(len(images), 1, 1, 1, generator=generator).to(images.device) < 0.5
        return torch.where(mirrored, images.flip(3), images)
    n, channels, height, width = images.shape
    device = images.device
    top, left = torch.randint(0, 2 * PADDING + 1, (2, n, 1), generator=generator).to(device)
    rows = top + torch.arange(height, device=device)
    columns = left + torch.arange(width, device=device)
    if kind == "crop-flip":
        mirrored = (torch.rand(n, 1, generator=generator) < 0.5).to(device)
        columns = torch.where(mirrored, columns.flip(1), columns)
    padded = F.pad(images, (PADDING,) * 4)
    sample = torch.arange(n, device=device)[:, None, None, None]
    channel = torch.arange(channels, device=device)[None, :, None, None]
    return padded[sample, channel, rows[:, None, :, None], columns[:, None, None, :]]
