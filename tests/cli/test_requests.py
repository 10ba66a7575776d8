"""`verify`, `log`, `show` and `rollback`: what they print, in words and as JSON, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny_release import POLICY, Forgetting, make_store, write_weights

from unsc.release.asked import Asked
from unsc.release.keys import PrivateKey
from unsc.release.policy import LIMITS, Policy
from unsc.release.release import handle


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_in):
    """Runs `unsc` with these words in a folder with a store that has a release and a refusal behind it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    store = make_store(tmp_path / "store")
    key = PrivateKey.create(tmp_path / "settings" / "unsc" / "key.pem")
    strict = Policy({**LIMITS, "retained_kl": 0.0}, required=("retained_kl",))
    for name, policy, out in (("bee", POLICY, "run"), ("cat", strict, "no")):
        handle(store, Asked(classes=(name,)), Forgetting(store), policy=policy, key=key, out=tmp_path / out)
    write_weights(tmp_path / "original.safetensors")
    (tmp_path / "lenient.toml").write_text("[rollback]\nallowed = true\n")
    return run_in(tmp_path)


def test_a_receipt_is_verified(command, tmp_path: Path) -> None:
    code, out, err = command("verify", "run/receipt.json", "--weights", "run/model")
    assert (code, err) == (0, "") and "Verified: release 1" in out and "It does not prove" in out
    code, out, _ = command("verify", "run", "--json")
    assert code == 0 and json.loads(out)["receipts"][0]["request"]["classes"] == ["bee"]
    receipt = tmp_path / "run" / "receipt.json"
    receipt.write_bytes(receipt.read_bytes().replace(b'"samples": 20', b'"samples": 21'))
    assert command("verify", "run/receipt.json")[0] == 3
    code, _, err = command("verify", "no/receipt.json")
    assert code == 2 and "give a receipt.json" in err


def test_changed_weights_are_found(command, tmp_path: Path) -> None:
    code, _, err = command("verify", "run", "--weights", "original.safetensors")
    assert code == 3 and "not what was released" in err


def test_requests_are_listed_and_shown(command) -> None:
    code, out, _ = command("log", "--store", "store")
    assert code == 0 and "released" in out and "refused" in out
    entries = json.loads(command("log", "--store", "store", "--json")[1])["entries"]
    assert [(e["number"], e["kind"], e["state"]) for e in entries] == [
        (1, "classes", "released"),
        (2, "classes", "refused"),
    ]
    code, out, _ = command("show", "2", "--store", "store")
    assert code == 0 and "retained_kl" in out and "NO" in out and "working" in out
    shown = json.loads(command("show", "1", "--store", "store", "--json")[1])
    assert [state for state, _ in shown["timings"]] == ["working", "releasing", "released"]
    assert shown["result"]["metrics"]["forget_acc"]["n"] == 20
    code, _, err = command("show", "7", "--store", "store")
    assert code == 2 and "no request 7" in err
    code, _, err = command("show", 10**30, "--store", "store")
    assert code == 2 and f"no request {10**30}" in err
    code, _, err = command("log", "--store", "nowhere")
    assert code == 2 and "no ledger" in err


def test_a_rollback_needs_the_policy(command) -> None:
    words = ("rollback", "1", "--store", "store", "--out", "back", "--weights", "original.safetensors")
    code, _, err = command(*words)
    assert code == 3 and "allowed = true" in err
    code, _, err = command(*words, "--policy", "lenient.toml", "--key", "back/key.pem")
    assert code == 2 and "handed around" in err
    code, out, _ = command(*words, "--policy", "lenient.toml", "--json")
    assert code == 0 and json.loads(out)["kind"] == "rollback"
    code, out, _ = command("verify", "run", "back", "--weights", "back/model")
    assert code == 0 and "Verified: rollback 2" in out
    code, _, err = command("verify", "back", "run", "back")
    assert code == 3 and "does not follow" in err


def test_shells_complete_commands(command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shellingham.detect_shell", lambda *_: ("bash", "bash"))  # tests may be run by no shell
    code, out, _ = command("--show-completion", "bash")
    assert code == 0 and "complete" in out
