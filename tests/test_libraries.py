"""Models and data of other libraries, as their users have them: transformers, datasets and peft."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import unsc
from unsc.batches import Batch
from unsc.datasets import as_source, read, read_labels
from unsc.errors import InvalidData

transformers = pytest.importorskip("transformers")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "red", "green", "blue", "the", "is", "very", "sky", "grass", "rose"]
COLOURS = ["red", "green", "blue"]


def sentence(i: int) -> str:
    """Of class i % 3, and of different lengths."""
    return " ".join(["the", WORDS[10 + i % 3], "is", *["very"] * (i % 4), COLOURS[i % 3]])


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]")
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]")


@pytest.fixture(scope="module")
def hf() -> Any:
    return pytest.importorskip("datasets")


@pytest.fixture(scope="module")
def raw(hf: Any) -> Any:
    """Text with a column of class labels and one that nobody needs."""
    features = hf.Features(
        {"text": hf.Value("string"), "label": hf.ClassLabel(names=COLOURS), "source": hf.Value("string")}
    )
    rows = [{"text": sentence(i), "label": i % 3, "source": f"page {i}"} for i in range(90)]
    return hf.Dataset.from_list(rows, features=features)


def bert() -> nn.Module:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        initializer_range=0.2,
        num_labels=3,
        id2label=dict(enumerate(COLOURS)),
        label2id={name: i for i, name in enumerate(COLOURS)},
    )
    return transformers.BertForSequenceClassification(config)


def trained(model: nn.Module, batch: Batch, steps: int = 60) -> nn.Module:
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(**batch.inputs).logits, batch.labels).backward()
        optimizer.step()
    return model.eval()


@pytest.fixture(scope="module")
def classifier(tokenizer: Any) -> nn.Module:
    """Knows all colours. Tests must not change it."""
    text = [sentence(i) for i in range(90)]
    inputs = dict(tokenizer(text, padding=True, return_tensors="pt"))
    return trained(bert(), Batch({k: inputs[k] for k in ("input_ids", "attention_mask")}, torch.arange(90) % 3))


def test_unpadded_text_with_a_tokenizers_collator(raw: Any, tokenizer: Any, classifier: nn.Module) -> None:
    """Straight from `datasets`, with columns of text beside the tokens: a class is forgotten by its name."""
    data = raw.map(lambda row: tokenizer(row["text"]))
    collator = transformers.DataCollatorWithPadding(tokenizer)
    result = unsc.forget(classifier, data, classes="green", collate_fn=collator)
    assert result.request.classes == (1,)
    assert result.ok
    after = unsc.evaluate(result.model, data, classes=["green"], collate_fn=collator)
    assert after.forget_test_acc == 0
    assert after.retain_test_acc > 95


def test_a_loader_of_tokens(raw: Any, tokenizer: Any, classifier: nn.Module) -> None:
    data = raw.map(lambda row: tokenizer(row["text"])).remove_columns(["text", "source"])
    loader = torch.utils.data.DataLoader(
        data, batch_size=8, shuffle=True, collate_fn=transformers.DataCollatorWithPadding(tokenizer)
    )
    assert unsc.forget(classifier, loader, classes=["green"]).ok


def test_padded_text_needs_no_collator(raw: Any, tokenizer: Any, classifier: nn.Module) -> None:
    """Lists of one length become tensors; token types, which the tokenizer adds, are taken by this model."""
    data = raw.map(lambda row: tokenizer(row["text"], padding="max_length", max_length=10))
    source = as_source(data, classifier)
    assert read(source, [0, 1]).inputs["input_ids"].shape == (2, 10)
    assert "source" not in read(source, [0]).inputs
    assert unsc.forget(classifier, data, classes=["green"], max_passes=1).request.classes == (1,)


def test_labels_come_from_their_column(raw: Any, tokenizer: Any, classifier: nn.Module) -> None:
    """A few samples are collated to compare, and no more."""
    data = raw.map(lambda row: tokenizer(row["text"]))
    collated: list[int] = []

    def counting(rows: list[Any]) -> Any:
        collated.extend([0] * len(rows))
        return transformers.DataCollatorWithPadding(tokenizer)(rows)

    assert torch.equal(read_labels(as_source(data, classifier, collate_fn=counting)), torch.arange(90) % 3)
    assert len(collated) <= 16


def test_raw_text_says_what_to_add(raw: Any, classifier: nn.Module) -> None:
    with pytest.raises(InvalidData, match=r"none of the columns text, label, source.*tokenizer\(row\['text'\]\)"):
        unsc.forget(classifier, raw, classes="green")


def test_unpadded_tokens_say_what_to_add(raw: Any, tokenizer: Any, classifier: nn.Module) -> None:
    data = raw.map(lambda row: tokenizer(row["text"]))
    with pytest.raises(InvalidData, match=r"sample 0 has .*input_ids \(4,\).*DataCollatorWithPadding\(tokenizer\)"):
        unsc.forget(classifier, data, classes="green")


@pytest.fixture
def images(hf: Any) -> Iterator[Any]:
    """Pictures in three colours, as files hold them."""
    pillow = pytest.importorskip("PIL.Image")
    shades = np.eye(3, dtype=np.uint8) * 200

    def picture(i: int) -> Any:
        return pillow.fromarray(np.broadcast_to(shades[i % 3] + i // 3, (4, 4, 3)).astype(np.uint8))

    features = hf.Features({"pixel_values": hf.Image(), "label": hf.ClassLabel(names=COLOURS)})
    yield hf.Dataset.from_list([{"pixel_values": picture(i), "label": i % 3} for i in range(60)], features=features)


def vit() -> nn.Module:
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=4,
        patch_size=2,
        num_labels=3,
    )
    return transformers.ViTForImageClassification(config)


def as_tensors(rows: dict[str, Any]) -> dict[str, Any]:
    pixels = [torch.tensor(np.asarray(image)).permute(2, 0, 1) / 255 for image in rows["pixel_values"]]
    return {"pixel_values": pixels, "label": rows["label"]}


def test_raw_images_say_what_to_add_and_then_work(images: Any) -> None:
    """One line, `set_transform`, is what is missing."""
    with pytest.raises(InvalidData, match=r"sample 0 holds a PIL image \(pixel_values\).*dataset\.set_transform"):
        unsc.forget(vit(), images, classes="green")
    images.set_transform(as_tensors)
    model = vit()
    trained(model, read(as_source(images, model), range(60)), steps=40)
    result = unsc.forget(model, images, classes="green")
    assert result.ok
    assert unsc.evaluate(result.model, images, classes="green").retain_test_acc > 95


def test_adapters_of_peft(raw: Any, tokenizer: Any, classifier: nn.Module) -> None:
    """Columns are those of the network inside; the base stays as it is, adapters and head alone are edited."""
    peft = pytest.importorskip("peft")
    data = raw.map(lambda row: tokenizer(row["text"]))
    collator = transformers.DataCollatorWithPadding(tokenizer)
    torch.manual_seed(0)
    config = peft.LoraConfig(task_type="SEQ_CLS", r=4, target_modules=["query", "value"])
    adapted = peft.get_peft_model(bert(), config)
    batch = read(as_source(data, adapted, collate_fn=collator), range(90))
    trained(adapted, batch, steps=80)
    result = unsc.forget(adapted, data, classes="green", collate_fn=collator)
    before, after = adapted.state_dict(), result.model.state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    assert all("lora_" in name or "classifier" in name for name in moved)
    assert unsc.evaluate(result.model, data, classes="green", collate_fn=collator).forget_test_acc == 0
