"""`unsc forget` from end to end, on models and data of every kind, and whatever can be wrong with them."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from brought import everything, image_classifier, logits, pixels, sentence, text_classifier
from rich.console import Console
from safetensors.torch import load_file

import unsc
from unsc.cli.view import View
from unsc.release.once import Ready, get_ready

pillow = pytest.importorskip("PIL.Image")

Run = Callable[..., tuple[int, str, str]]

MODEL = ("forget", "--model", "brought_app:build", "--weights", "model.safetensors", "--workers", "0")
WORDS = (*MODEL, "--data", "train")


def test_the_first_five_minutes(command: Run, folder: Path) -> None:
    """A class by its name: a table, exit code 0, and a folder that can be read back; on the way, plain lines."""
    code, out, err = command(*WORDS, "--classes", "cat", "--validation", "test", "--out", "runs/first")
    assert code == 0, err
    assert "cat: forgotten" in out and "validation accuracy, what goes (%)" in out and "Written to runs/first" in out
    assert out.endswith("metrics.json, report-data.json\nNext: unsc report runs/first\n")
    assert "forgetting: step 2 of at most" in err and "forget accuracy" in err and "\x1b[" not in err
    found = {path.name for path in (folder / "runs/first").iterdir()}
    assert found == {"model.safetensors", "metrics.json", "config.json", "report-data.json"}
    original = unsc.load_model("brought_app:build", "model.safetensors")
    back = unsc.Forgotten.load("runs/first", original.model)
    assert back.ok and back.request.classes == (2,)
    test = everything(unsc.load_data("test", model=original), back.model)
    predicted = logits(back.model, test).argmax(dim=1)
    assert (predicted[test.labels == 2] != 2).all() and (predicted == test.labels)[test.labels != 2].all()
    again = command(*WORDS, "--classes", "cat", "--out", "runs/first")
    assert again[0] == 2 and "runs/first exists already" in again[2] and "--overwrite" in again[2]


def test_outputs_are_dropped(command: Run, folder: Path) -> None:
    """The saved network has two outputs left; loaded again, it speaks in the labels of the data."""
    dropping = ("--classes", "bee", "--options", "drop_outputs=true", "--validation", "test", "--out", "runs/smaller")
    code, out, err = command(*WORDS, *dropping)
    assert code == 0 and "bee: forgotten" in out, err
    assert json.loads((folder / "runs/smaller/config.json").read_text())["label_map"] == {"0": 0, "2": 1}
    assert load_file("runs/smaller/model.safetensors")["4.weight"].shape == (2, 6)
    back = unsc.load_model("brought_app:build", "runs/smaller/model.safetensors")
    test = everything(unsc.load_data("test", model=back), back.model)
    predicted, stays = logits(back.model, test).argmax(dim=1), test.labels != 1
    assert (predicted != 1).all() and (predicted == test.labels)[stays].all()


def test_a_run_is_reported_from_its_folder_alone(command: Run, folder: Path) -> None:
    """With validation data and without, classes and records; a report does not stand in the way of another run."""
    ids = folder / "ids.csv"
    ids.write_text("id\ncat/0.png\nbee/1.png\n")
    for asked in (("--classes", "cat", "--validation", "test"), ("--classes", "cat"), ("--ids", ids)):
        assert command(*WORDS, *asked, "--out", "runs/told", "--overwrite")[0] in (0, 3)
        code, out, err = command("report", "runs/told")
        assert code == 0, err
        assert out.splitlines()[-1].endswith("/runs/told/report.html")
        page = (folder / "runs/told/report.html").read_text()
        assert ("not trained on to compare with" in page) == ("--validation" not in asked)
        assert "report-data.json, which" not in page, "networks are side by side"
    code, _, err = command("report", "train")
    assert code == 2 and "holds no run" in err


def test_what_is_not_forgotten_has_an_exit_code(command: Run, folder: Path) -> None:
    """And says what was measured and what to try; as JSON too, with nothing else on standard output."""
    few = ("--classes", "0", "--options", "budget=1e-12,max_passes=1,batch_size=32", "--out", "runs/little")
    code, out, err = command(*WORDS, *few)
    assert code == 3, err
    assert "ant: not forgotten" in out and "Try: allow more passes: --options max_passes=4" in out
    code, out, _ = command(*WORDS, *few, "--overwrite", "--json", "--validation", "test")
    told = json.loads(out)
    assert code == 3 and not told["ok"] and told["classes"] == ["ant"] and told["out"] == "runs/little"
    assert told["validation"]["after"]["retain_acc"] == 100 and told["forget_acc"] > 50
    (folder / "runs/little/mine.txt").touch()
    code, _, err = command(*WORDS, *few, "--overwrite")
    assert code == 2 and "holds mine.txt, which is no part of a result" in err


def test_a_dry_run_writes_nothing(command: Run, folder: Path) -> None:
    before = sorted(path.name for path in folder.iterdir())
    code, out, _ = command(*WORDS, "--classes", "bee,2", "--out", "runs/x", "--dry-run")
    assert code == 0 and "Whole classes: bee, cat, with 48 of 72 training samples" in out
    (folder / "ids.csv").write_text("id\nant/3.png\nbee/4.png\n")
    code, out, _ = command(*WORDS, "--ids", "ids.csv", "--out", "runs/x", "--dry-run", "--json")
    assert code == 0 and (json.loads(out)["request"], json.loads(out)["samples"]) == ("records", 2)
    assert sorted(path.name for path in folder.iterdir()) == sorted([*before, "ids.csv"])


def test_records_of_a_user_in_arrays(command: Run, folder: Path) -> None:
    """Found through a column; what unseen samples get is what they should get."""
    generator = np.random.default_rng(1)
    labels = np.arange(60) % 3
    images = np.stack([pixels(k, generator).transpose(2, 0, 1) for k in labels.tolist()])
    users = np.array([f"u{i // 4}" for i in range(60)])
    np.savez(folder / "train.npz", x=images, y=labels, user=users)
    (folder / "request.jsonl").write_text('{"user": "u3"}\n{"id": "50"}\n')
    words = (*MODEL, "--data", "train.npz", "--ids", "request.jsonl", "--validation", "test", "--json")
    code, out, err = command(*words, "--out", "runs/records")
    told = json.loads(out)
    assert code == (0 if told["ok"] else 3), err
    assert told["request"] == "records" and told["records"] == 5 and (told["advice"] == []) == told["ok"]
    assert json.loads((folder / "runs/records/config.json").read_text())["indices"] == [12, 13, 14, 15, 50]


def test_data_of_a_users_code(command: Run, folder: Path) -> None:
    code, out, err = command(*MODEL, "--data", "brought_app:own", "--classes", "1", "--out", "runs/own", "--json")
    assert code == 0, err
    assert json.loads(out)["classes"] == ["1"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--classes", "cow"), "there is no class 'cow'; there are ant, bee, cat"),
        (("--classes", "7"), "train has no sample of class 7; it has ant, bee, cat"),
        (("--classes", "ant,bee,cat"), "all 3 classes would be forgotten"),
        ((), "name either classes or records"),
        (("--classes", "cat", "--ids", "ids.csv"), "cannot read ids.csv"),
        (("--ids", "ids.txt"), "ids.txt is not named like a request"),
        (("--classes", "cat", "--weights", "none.pt"), "there is no file none.pt"),
        (("--classes", "cat", "--model", "brought_app:smaller"), "does not fit brought_app:smaller"),
        (("--classes", "cat", "--model", "nowhere"), "neither a folder that is there nor an import path"),
        (("--classes", "cat", "--data", "nowhere"), "there is no data 'nowhere'"),
        (("--classes", "cat", "--data", "brought_app.py"), "ends in '.py', which is not known"),
        (("--classes", "cat", "--transform", "brought_app:fails"), "ZeroDivisionError: by design"),
        (("--classes", "cat", "--transform", "brought_app:none"), "module brought_app has no 'none'"),
        (("--classes", "cat", "--validation", "brought_app.py"), "ends in '.py', which is not known"),
        (("--classes", "cat", "--options", "max_pases=3"), "did you mean max_passes?"),
        (("--classes", "cat", "--options", "max_passes"), "give each option once, as in max_passes=4"),
        (("--classes", "cat", "--options", "max_passes=0"), "allowed is a whole number of at least 1"),
        (("--classes", "cat", "--out", "model.safetensors"), "model.safetensors exists already"),
        (("--classes", "cat", "--out", "model.safetensors", "--overwrite"), "model.safetensors is a file"),
        (("--classes", "cat", "--workers", "-1"), "workers=-1; allowed is a whole number of at least 0"),
        (("--classes", "9" * 5000), "there is no class '999"),
        (("--classes", "cat", "--options", "progress=1"), "there is no option 'progress'"),
        (("--classes", "cat", "--seed", "9" * 30), "allowed is a whole number of at least 0 and below 2**63"),
        (("--classes", "cat", "--out", "model.safetensors/x"), "a part of this path is a file, not a folder"),
        (("--classes", "cat", "--out", "train/x"), "train/x is in the data train, whose folders are classes"),
        (("--classes", "cat", "--out", "test/x/y", "--validation", "test"), "test/x/y is in the data test"),
    ],
)
def test_mistakes_are_messages(command: Run, folder: Path, words: tuple[str, ...], said: str) -> None:
    """Said before anything is computed: no stage has begun."""
    before = sorted(folder.rglob("*"))
    code, out, err = command(*WORDS, "--out", "runs/x", *words)
    assert (code, out) == (2, "") and said in err and err.startswith("error: ")
    assert sorted(folder.rglob("*")) == before


def test_what_a_run_starts_from_is_not_replaced(command: Run, folder: Path) -> None:
    """Not even where it is a result itself: if classes are not forgotten, nothing else would be left."""
    (folder / "first").mkdir()
    shutil.copy(folder / "model.safetensors", folder / "first/model.safetensors")
    moved = ("--weights", "first/model.safetensors", "--classes", "cat", "--overwrite", "--dry-run")
    code, _, err = command(*WORDS, *moved, "--out", "first")
    assert code == 2 and "first/model.safetensors is in first, which would be replaced" in err
    assert command(*WORDS, *moved, "--out", "second")[0] == 0


def test_names_in_brackets_are_names(command: Run, folder: Path) -> None:
    """And no markup, which would be left out of what is said, or fail."""
    code, out, err = command(*WORDS, "--classes", "cat", "--out", "runs/[/bold] [red]x")
    assert code == 0 and "Written to runs/[/bold] [red]x: model.safetensors" in out, err
    assert out.endswith("Next: unsc report 'runs/[/bold] [red]x'\n"), "a shell takes it as one word"


def test_folders_that_are_not_the_models_are_refused(command: Run, folder: Path) -> None:
    """Two folders of a network with three outputs: nobody knows which is which."""
    for name in ("ant", "cat"):
        (folder / "two" / name).mkdir(parents=True)
        pillow.new("RGB", (6, 6)).save(folder / "two" / name / "0.png")
    code, _, err = command(*MODEL, "--data", "two", "--classes", "cat", "--out", "runs/x")
    assert code == 2 and "two has 2 classes (ant, cat), and the model 3 outputs" in err


def test_ctrl_c_leaves_nothing(command: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Ready, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Ready, "forget", interrupted)
    code, out, err = command(*WORDS, "--classes", "cat", "--out", "runs/x")
    assert (code, out, err) == (130, "", "stopped; nothing was written\n") and not (folder / "runs").exists()


def test_the_table_fills() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    view = View(console)
    with view.progress("moments", 7) as advance:
        advance()
    with view.progress("forgetting", 64) as advance:
        advance()
        advance.show(forget_acc=37.5, retained_kl=0.0123)  # type: ignore[attr-defined]
        console.print(view.table())
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if "│" in line]
    assert rows == [["moments", "1/7", "", ""], ["forgetting", "1/64", "37.5 %", "0.0123 nats"]]


def test_in_a_notebook(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in Python, by ids that are named there."""
    monkeypatch.chdir(folder)
    ready = get_ready("brought_app:build", weights="model.safetensors", data="train", classes=["cat"])
    reached = ready.forget(progress=False)
    assert reached.ok and reached.save("runs/notebook") == Path("runs/notebook")
    named = get_ready("brought_app:build", weights="model.safetensors", data="train", records=["ant/1.png"])
    assert named.kind == "records" and named.records == (ready.data.ids.index("ant/1.png"),)
    sys.modules.pop("brought_app", None)


def test_what_was_not_known_is_advised_on_by_what_was_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that are not known by heart say nothing against weights or data; a class that is not known does."""
    monkeypatch.chdir(folder)
    words: dict[str, Any] = {"weights": "model.safetensors", "data": "train", "validation": "test"}
    for asked, what, said in (("records", "ant/1.png", "nothing known by heart"), ("classes", "cat", "--transform")):
        words_of = {**words, asked: [what]}
        reached = get_ready("brought_app:build", **words_of).forget(progress=False, max_passes=1)
        metrics = replace(reached.result.metrics, status="not known")
        advice = " ".join(replace(reached, result=replace(reached.result, metrics=metrics)).advice)
        assert said in advice and ("weights" in advice) == (asked == "classes")
    sys.modules.pop("brought_app", None)


def test_a_text_classifier_of_transformers(command: Run, folder: Path) -> None:
    """From a table to a folder that `from_pretrained` loads, with its tokenizer; CSV and Parquet."""
    transformers = pytest.importorskip("transformers")
    arrow, parquet = pytest.importorskip("pyarrow.csv"), pytest.importorskip("pyarrow.parquet")
    text_classifier(folder)
    parquet.write_table(arrow.read_csv(folder / "train.csv"), folder / "train.parquet")
    code, _, err = command(
        "forget", "--model", "trained", "--data", "train.parquet", "--classes", "green", "--out", "runs/text"
    )
    assert code == 0, err
    back = transformers.AutoModelForSequenceClassification.from_pretrained("runs/text/model").eval()
    reader = transformers.AutoTokenizer.from_pretrained("runs/text/model")
    inputs = reader([sentence(i) for i in range(9)], padding=True, return_tensors="pt")
    with torch.no_grad():
        said = [back.config.id2label[k] for k in back(**inputs).logits.argmax(dim=1).tolist()]
    assert "green" not in said and [said[i] for i in (0, 2, 3, 5)] == ["red", "blue", "red", "blue"]


def test_an_image_classifier_of_transformers(command: Run, folder: Path) -> None:
    """Its processor makes the inputs; names are those of the folders, since it has none of its own."""
    image_classifier(folder, folder / "train")
    code, _, err = command(
        "forget", "--model", "trained", "--data", "train", "--classes", "bee", "--out", "runs/vit", "--workers", "0"
    )
    assert code == 0, err
    back = unsc.load_model("runs/vit/model")
    test = everything(unsc.load_data("test", model=back), back.model)
    predicted = logits(back.model, test).argmax(dim=1)
    assert (predicted[test.labels == 1] != 1).all() and (predicted == test.labels)[test.labels != 1].all()
