"""`unsc prepare` and `unsc forget --store`, on models and data of every kind; the retained data is deleted between."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from brought import everything, image_classifier, logits, text_classifier, write_sentences

import unsc
from unsc.release.store import Store

pillow = pytest.importorskip("PIL.Image")

Run = Callable[..., tuple[int, str, str]]
PREPARE = ("prepare", "--model", "brought_app:build", "--weights", "model.safetensors", "--workers", "0")
FORGET = ("forget", "--store", "store", "--workers", "0")


@pytest.fixture(autouse=True)
def own_key(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "settings"))


@pytest.fixture
def images(folder: Path) -> Path:
    """The training images, each with a user."""
    data = Path(shutil.copytree(folder / "train", folder / "images"))
    rows = [f"{p.relative_to(data).as_posix()},u{i % 9}" for i, p in enumerate(sorted(data.rglob("*.png")))]
    (data / "metadata.csv").write_text("\n".join(["file_name,user", *rows]))
    return data


def keep(data: Path, names: set[str]) -> None:
    """Delete all images but these."""
    for path in sorted(data.rglob("*.png")):
        if path.relative_to(data).as_posix() not in names:
            path.unlink()
    lines = (data / "metadata.csv").read_text().splitlines()
    (data / "metadata.csv").write_text("\n".join([lines[0], *(x for x in lines[1:] if x.split(",")[0] in names)]))


def test_three_commands(command: Run, folder: Path, images: Path) -> None:
    """Prepare, forget, verify: a class, then a user's records, with nothing at hand but what is to be forgotten."""
    code, out, err = command(*PREPARE, "--data", "images", "--out", "store", "--canaries", "24")
    assert code == 0, err
    assert "statistics of 2 layers from" in err and "72 samples by hash, 24 canaries, requests by user" in out
    users = Store(folder / "store").manifest.columns["user"]["u4"]
    keep(images, {p.relative_to(images).as_posix() for p in (images / "cat").iterdir()} | {*users})
    (folder / "one.csv").write_text("class\ncat\n")
    code, out, err = command(*FORGET, "--request", "one.csv", "--out", "runs/1")
    assert code == 0, err
    assert "Released as request 1" in out and "forget_acc" in out
    (folder / "two.jsonl").write_text('{"user": "u4"}\n')
    code, out, err = command(*FORGET, "--request", "two.jsonl", "--out", "runs/2", "--validation", "test", "--json")
    told = json.loads(out)
    assert (code, told["state"], told["kind"]) == (0, "released", "records"), err
    assert told["result"]["metrics"]["revived"]["value"] == 0
    code, out, _ = command("verify", "runs/1", "runs/2", "--weights", "runs/2/model")
    assert code == 0 and "Verified: release 2" in out
    network = unsc.load_model("brought_app:build", "runs/2/model/model.safetensors")
    test = everything(unsc.load_data("test", model=network), network.model)
    predicted = logits(network.model, test).argmax(dim=1)
    assert (predicted[test.labels == 2] != 2).all() and (predicted == test.labels)[test.labels != 2].all()
    again = command(*FORGET, "--classes", "cat", "--out", "runs/3")
    assert again[0] == 0 and "was released before" in again[1] and not (folder / "runs/3").exists()


def test_the_estimate_comes_first(command: Run, folder: Path, images: Path) -> None:
    code, out, _ = command(*PREPARE, "--data", "images", "--out", "store", "--dry-run", "--json")
    planned = json.loads(out)
    assert code == 0 and planned["samples"] == 72 and not (folder / "store").exists()
    code, out, _ = command(*PREPARE, "--data", "images", "--out", "store", "--json")
    made = json.loads(out)
    assert code == 0 and 0.5 < made["bytes"] / planned["estimate"]["bytes"] < 2
    code, _, err = command(*PREPARE, "--data", "images", "--out", "store")
    assert code == 2 and "store exists already" in err


def test_a_rehearsal_and_a_refusal(command: Run, folder: Path, images: Path) -> None:
    """The same verdict, with nothing written in one case and the candidate kept aside in the other."""
    command(*PREPARE, "--data", "images", "--out", "store")
    (folder / "strict.toml").write_text("[gate]\nretained_kl = 0.0\n")
    words = (*FORGET, "--classes", "cat", "--out", "runs/1", "--policy", "strict.toml")
    code, out, _ = command(*words, "--dry-run")
    assert code == 3 and "It would be refused. Nothing was written." in out and not (folder / "runs").exists()
    code, out, _ = command(*words)
    assert code == 3 and "predicted" in out and "too much; take a smaller budget" in out
    assert {p.name for p in (folder / "runs/1").iterdir()} == {"refused-1"}
    code, out, _ = command(*FORGET, "--classes", "cat", "--out", "runs/1", "--dry-run", "--json")
    assert code == 0 and json.loads(out)["metrics"]["retained_kl"]["source"] == "predicted"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "either --request FILE, or --classes"),
        (("--classes", "cow"), "there is no class 'cow'"),
        (("--classes", "cat", "--model", "brought_app:build"), "--model does nothing with --store"),
        (("--classes", "cat", "--overwrite"), "--overwrite does nothing with --store"),
        (("--classes", "cat", "--data", "nowhere"), "there is no data 'nowhere'"),
        (("--classes", "cat", "--data", "test"), "24 of 24 samples to forget are not in test"),
        (("--classes", "cat", "--weights", "untrained.safetensors"), "are not those that the store tells of"),
        (("--classes", "cat", "--options", "step=paper"), "a store serves the budgeted step alone"),
        (("--classes", "cat", "--options", "budgett=1"), "did you mean budget?"),
        (("--classes", "cat", "--key", "runs/1/key.pem"), "handed around"),
        (("--classes", "cat", "--store", "nowhere"), "there is no store nowhere"),
    ],
)
def test_mistakes_are_messages(command: Run, folder: Path, images: Path, words: tuple[str, ...], said: str) -> None:
    command(*PREPARE, "--data", "images", "--out", "store")
    code, out, err = command(*FORGET, "--out", "runs/1", *words)
    assert (code, out) == (2, "") and said in err and not (folder / "runs/1/model").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--canaries", "-1"), "canaries=-1"),
        (("--columns", "owner"), "there is no column 'owner'"),
        (("--data", "nowhere"), "there is no data 'nowhere'"),
        (("--weights", "none.pt"), "there is no file none.pt"),
    ],
)
def test_mistakes_while_preparing(command: Run, folder: Path, images: Path, words: tuple[str, ...], said: str) -> None:
    code, _, err = command(*PREPARE, "--data", "images", "--out", "store", *words)
    assert code == 2 and said in err and not (folder / "store").exists()


def test_without_a_store_options_of_one_are_refused(command: Run) -> None:
    code, _, err = command("forget", "--out", "x", "--classes", "cat", "--policy", "p.toml")
    assert code == 2 and "--policy does nothing without --store" in err
    code, _, err = command("forget", "--out", "x", "--classes", "cat")
    assert code == 2 and "--model is missing" in err


def test_a_text_classifier_of_transformers(command: Run, folder: Path) -> None:
    """A class, records and a user of a folder of BERT, with the texts that stay deleted."""
    text_classifier(folder)
    code, _, err = command("prepare", "--model", "trained", "--data", "train.csv", "--out", "store", "--canaries", "30")
    assert code == 0, err
    shutil.rmtree(folder / "text")
    named = ("class\ngreen\n", "id\n" + "\n".join(f"s{i}" for i in (0, 2, 3, 5, 6, 9)) + "\n", "user\nu7\n")
    write_sentences(folder / "train.csv", sorted({*range(1, 90, 3), 0, 2, 3, 5, 6, 9, *range(70, 80)}))
    write_sentences(folder / "unseen.csv", range(100, 160))
    for i, content in enumerate(named):
        (folder / "request.csv").write_text(content)
        words = ("--request", "request.csv", "--validation", "unseen.csv", "--out", f"runs/{i}")
        code, out, err = command(*FORGET, *words)
        assert code == 0, out + err
        if i == 0:
            shutil.rmtree(folder / "trained")  # the weights before a release are no longer needed
    assert command("verify", "runs/0", "runs/1", "runs/2", "--weights", "runs/2/model")[0] == 0
    network = unsc.load_model("runs/2/model")
    write_sentences(folder / "all.csv", range(90))
    whole = everything(unsc.load_data("all.csv", model=network), network.model)
    right = logits(network.model, whole).argmax(dim=1) == whole.labels
    assert not right[whole.labels == 1].any() and right[whole.labels != 1].float().mean() > 0.9


def test_an_image_classifier_of_transformers(command: Run, folder: Path, images: Path) -> None:
    """The same of a small ViT, and of images that its processor reads."""
    image_classifier(folder, folder / "train")
    code, _, err = command("prepare", "--model", "trained", "--data", "images", "--out", "store", "--canaries", "24")
    assert code == 0, err
    users = Store(folder / "store").manifest.columns["user"]["u2"]
    records = {f"ant/{i}.png" for i in range(4)} | {f"cat/{i}.png" for i in range(4)}
    keep(images, {p.relative_to(images).as_posix() for p in (images / "bee").iterdir()} | records | {*users})
    named = ("class\nbee\n", "id\n" + "\n".join(sorted(records - {*users})) + "\n", "user\nu2\n")
    for i, content in enumerate(named):
        (folder / "request.csv").write_text(content)
        words = ("--request", "request.csv", "--validation", "test", "--out", f"runs/{i}")
        code, out, err = command(*FORGET, *words)
        assert code == 0, out + err
    network = unsc.load_model("runs/2/model")
    test = everything(unsc.load_data("test", model=network), network.model)
    predicted = logits(network.model, test).argmax(dim=1)
    assert (predicted[test.labels == 1] != 1).all() and (predicted == test.labels)[test.labels != 1].all()
