"""Models that users bring: of their own code, and folders that transformers saved; and how they are written again."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from unsc.datasets import as_source, read
from unsc.errors import InvalidData, InvalidRequest, UnsupportedModel
from unsc.loading.data import load_data
from unsc.loading.models import load_model

WORDS = ["[PAD]", "[UNK]", "red", "green", "blue", "the", "is", "very"]
COLOURS = ["red", "green", "blue"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper/brought_net.py").write_text("from torch import nn\ndef build():\n    return nn.Linear(3, 2)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("brought_net", None)


def test_a_model_of_a_users_code(here: Path) -> None:
    """It is found in the folder that is named, and comes back as it was saved."""
    state = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.ones(2)}
    save_file(state, here / "w.safetensors")
    loaded = load_model("brought_net:build", here / "w.safetensors", search=here / "deeper")
    assert not loaded.model.training and loaded.class_names is None
    changed = nn.Linear(3, 2)
    assert loaded.save(here / "out", nn.DataParallel(changed)) == here / "out"
    again = load_model("brought_net:build", here / "out/model.safetensors")
    assert torch.equal(again.model.weight, changed.weight)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="out exists already"):
        loaded.save(here / "out", changed)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("nowhere", "neither a folder that is there nor an import path"),
        ("app.net", "neither a folder that is there nor an import path"),
        ("unsc.bench.networks:digits_cnn", r"give their file \(--weights\)"),
        ("deeper", r"deeper has no config\.json"),
    ],
)
def test_what_is_no_model_is_refused(here: Path, spec: str, said: str) -> None:
    with pytest.raises((InvalidRequest, InvalidData), match=said):
        load_model(spec)


@pytest.fixture
def text_folder(tmp_path: Path) -> Path:
    """A text classifier as transformers saves it."""
    transformers, tokenizers = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]")
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        max_position_embeddings=6, num_labels=3, id2label=dict(enumerate(COLOURS)),
    )  # fmt: skip
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path / "text")
    tokenizer.save_pretrained(tmp_path / "text")
    return tmp_path / "text"


def test_a_text_classifier(here: Path, text_folder: Path) -> None:
    """Texts of different lengths make a batch, none longer than the model takes; saved, `from_pretrained` loads it."""
    transformers = pytest.importorskip("transformers")
    loaded = load_model(str(text_folder))
    assert loaded.class_names == tuple(COLOURS) and loaded.takes == "texts"
    (here / "a.csv").write_text("text,label\nred,red\nthe the is very very very very blue,blue\n")
    data = load_data("a.csv", model=loaded)
    batch = read(as_source(data.dataset, loaded.model, collate_fn=data.collate), [0, 1])
    assert batch.labels.tolist() == [0, 2] and batch.inputs["input_ids"].tolist() == [
        [2, 0, 0, 0, 0, 0],
        [5, 5, 6, 7, 7, 7],
    ]
    with torch.no_grad():
        loaded.model.classifier.bias.fill_(3)  # type: ignore[union-attr, operator]
    loaded.save(here / "out", loaded.model)
    again = transformers.AutoModelForSequenceClassification.from_pretrained(here / "out")
    assert again.classifier.bias.tolist() == [3, 3, 3] and again.config.id2label[1] == "green"
    assert transformers.AutoTokenizer.from_pretrained(here / "out")("blue")["input_ids"] == [4]
    other = {name: torch.zeros_like(t) for name, t in loaded.model.state_dict().items()}
    save_file(other, here / "zeros.safetensors")
    assert not load_model(str(text_folder), here / "zeros.safetensors").model.classifier.bias.any()  # type: ignore[union-attr, operator]


def test_an_image_classifier(here: Path) -> None:
    """Its own processor makes the tensors, of gray images too. Names that the library makes up are no names."""
    transformers, pillow = pytest.importorskip("transformers"), pytest.importorskip("PIL.Image")
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, image_size=4, patch_size=2,
        num_labels=2,
    )  # fmt: skip
    transformers.ViTForImageClassification(config).save_pretrained(here / "vit")
    transformers.ViTImageProcessorPil(size={"height": 4, "width": 4}).save_pretrained(here / "vit")
    loaded = load_model("vit")
    assert loaded.class_names is None and loaded.takes == "images"
    for name in ("a", "b"):
        (here / "data" / name).mkdir(parents=True)
        pillow.new("L", (9, 5), 255).save(here / "data" / name / "white.png")
    data = load_data("data", model=loaded)
    batch = read(as_source(data.dataset, loaded.model), [0, 1])
    assert batch.inputs["pixel_values"].shape == (2, 3, 4, 4) and (batch.inputs["pixel_values"] == 1).all()
    (here / "t.csv").write_text("text,label\na,0\n")
    with pytest.raises(InvalidData, match="the data holds texts, and the model is for images"):
        load_data("t.csv", model=loaded)


def edit(folder: Path, name: str, **changes: Any) -> None:
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_folders_that_are_no_classifier_are_refused(text_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing weights are not made up, and code in a folder is not run."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    weights = load_file(text_folder / "model.safetensors")
    save_file(
        {k: t for k, t in weights.items() if "classifier" not in k}, text_folder / "model.safetensors", {"format": "pt"}
    )
    with pytest.raises(
        InvalidData, match=r"lack classifier\.bias, classifier\.weight; give a classifier that was trained"
    ):
        load_model(str(text_folder))
    edit(text_folder, "config.json", architectures=["BertForMaskedLM"])
    with pytest.raises(UnsupportedModel, match="holds BertForMaskedLM; give a classifier of images"):
        load_model(str(text_folder))
    (text_folder / "config.json").write_text("{")
    with pytest.raises(InvalidData, match=r"cannot load its config\.json"):
        load_model(str(text_folder))
    (text_folder / "harm.py").write_text(f"open({str(text_folder / 'owned')!r}, 'w')\nclass C: pass\n")
    code = {"auto_map": {"AutoConfig": "harm.C"}, "model_type": "harm"}
    (text_folder / "config.json").write_text(json.dumps(code))
    with pytest.raises(InvalidData, match=r"cannot load its config\.json"):
        load_model(str(text_folder))
    assert not (text_folder / "owned").exists()


def test_a_tokenizer_without_padding_is_refused(text_folder: Path) -> None:
    edit(text_folder, "tokenizer_config.json", pad_token=None)
    with pytest.raises(UnsupportedModel, match="has no padding token"):
        load_model(str(text_folder))
