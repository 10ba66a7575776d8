"""Augmented images are crops of the padded image, mirrored or not, and depend on the generator alone."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from unsc.bench.training.augment import Augmentation, augment


@pytest.mark.parametrize(("kind", "mirrors"), [("crop", (False,)), ("crop-flip", (False, True))])
def test_each_image_is_one_of_the_possible_crops(kind: Augmentation, mirrors: tuple[bool, ...]) -> None:
    """Found by trying all 81 offsets; over many images all offsets and both sides appear, in like numbers."""
    images = torch.arange(1.0, 1 + 2 * 2 * 6 * 5).reshape(2, 2, 6, 5).repeat(400, 1, 1, 1)
    out = augment(images, kind, generator=torch.Generator().manual_seed(0))
    padded = F.pad(images[:2], (4, 4, 4, 4))
    crops = {}
    for top in range(9):
        for left in range(9):
            for mirror in mirrors:
                crop = padded[:, :, top : top + 6, left : left + 5]
                crops[top, left, mirror] = crop.flip(3) if mirror else crop
    found = [{key for key, crop in crops.items() if torch.equal(crop[i % 2], image)} for i, image in enumerate(out)]
    assert all(found)
    for axis in (0, 1):
        assert {key[axis] for keys in found if len(keys) == 1 for key in keys} == set(range(9))
    mirrored = sum(any(key[2] for key in keys) for keys in found)
    assert mirrored == 0 if len(mirrors) == 1 else 330 < mirrored < 470


def test_the_generator_decides() -> None:
    images = torch.randn(20, 3, 8, 8)
    first, same, other = (augment(images, "crop", generator=torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(first, same) and not torch.equal(first, other)
    assert augment(images, "none") is images


def test_mirror_images_alone_are_the_image_or_its_mirror() -> None:
    """Each by its own draw, about half of them mirrored."""
    images = torch.randn(400, 2, 3, 5)
    out = augment(images, "flip", generator=torch.Generator().manual_seed(0))
    mirrored = [torch.equal(new, old.flip(2)) for new, old in zip(out, images, strict=True)]
    assert all(m or torch.equal(new, old) for m, new, old in zip(mirrored, out, images, strict=True))
    assert 160 < sum(mirrored) < 240
