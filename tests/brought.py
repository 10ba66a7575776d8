"""Models and data as users bring them: images in folders, a module of their own, folders that `transformers` saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import unsc
from unsc.batches import Batch
from unsc.datasets import as_source, read
from unsc.loading.data import LoadedData

NAMES = ["ant", "bee", "cat"]
MODULE = """
import numpy as np
import torch
from torch import nn

def build():
    return nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3)
    )

def smaller():
    return nn.Linear(2, 3)

def own():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(60) % 3
    images = 0.2 * torch.rand(60, 3, 6, 6, generator=generator)
    images[torch.arange(60), labels] += 0.6
    return torch.utils.data.TensorDataset(images, labels)

def fails(image):
    raise ZeroDivisionError("by design")
"""


def pixels(label: int, generator: np.random.Generator) -> np.ndarray:
    """A noisy picture, most of it in the colour of its class."""
    found = generator.integers(0, 60, (6, 6, 3))
    found[..., label] += 150
    return found.astype(np.uint8)


def everything(data: LoadedData, model: nn.Module) -> Batch:
    return read(as_source(data.dataset, model, collate_fn=data.collate), range(len(data)))


def logits(model: nn.Module, batch: Batch) -> Tensor:
    return model(**batch.inputs).logits if isinstance(batch.inputs, dict) else model(batch.inputs)


def fit(model: nn.Module, batch: Batch, *, lr: float = 0.03, steps: int = 60) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(logits(model, batch), batch.labels).backward()
        optimizer.step()
    model.eval()


COLOURS = ["red", "green", "blue"]
DIGITS = [f"n{i}" for i in range(10)]
TOKENS = ["[PAD]", "[UNK]", *COLOURS, "the", "is", "very", "sky", "grass", "rose", *DIGITS]


def sentence(i: int) -> str:
    """No two of the first 300 are the same."""
    number = [DIGITS[i // 10 % 10], DIGITS[i % 10]]
    return " ".join(["the", TOKENS[8 + i % 3], *number, "is", *["very"] * (i % 4), COLOURS[i % 3]])


def text_classifier(folder: Path) -> None:
    """Saves a trained classifier of sentences as `trained`, and its 90 sentences as train.csv."""
    transformers, tokenizers = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(TOKENS)}, unk_token="[UNK]")
    )
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(TOKENS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=16, initializer_range=0.2, num_labels=3, id2label=dict(enumerate(COLOURS)),
    )  # fmt: skip
    for each in (transformers.BertForSequenceClassification(config), tokenizer):
        each.save_pretrained(folder / "text")
    write_sentences(folder / "train.csv", range(90))
    loaded = unsc.load_model(str(folder / "text"))
    data = unsc.load_data(str(folder / "train.csv"), model=loaded)
    fit(loaded.model, everything(data, loaded.model), lr=0.01)
    loaded.save(folder / "trained", loaded.model)


def write_sentences(path: Path, numbers: Any) -> None:
    lines = [f"s{i},{sentence(i)},{COLOURS[i % 3]},u{i // 10}" for i in numbers]
    path.write_text("\n".join(["id,text,label,user", *lines]))


def image_classifier(folder: Path, data: Path) -> None:
    """Saves a small ViT, trained on the images in a folder, as `trained`."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=6, patch_size=3,
        num_labels=3,
    )  # fmt: skip
    transformers.ViTForImageClassification(config).save_pretrained(folder / "vit")
    transformers.ViTImageProcessorPil(size={"height": 6, "width": 6}).save_pretrained(folder / "vit")
    loaded = unsc.load_model(str(folder / "vit"))
    fit(loaded.model, everything(unsc.load_data(str(data), model=loaded), loaded.model), lr=0.01, steps=40)
    loaded.save(folder / "trained", loaded.model)
