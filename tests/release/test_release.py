"""From a request to released weights: released once, in sequence, gated, signed, and taken back only where allowed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_release import DATA, POLICY, Forgetting, make_store, write_weights

from unsc.errors import InvalidData, InvalidRequest, NotAllowed, NotVerified
from unsc.release.asked import Asked, User
from unsc.release.candidate import Made
from unsc.release.keys import PrivateKey, PublicKey
from unsc.release.ledger import StoreIsBusy, open_ledger, read_ledger
from unsc.release.manifest import Resolved
from unsc.release.policy import LIMITS, Figure, Policy
from unsc.release.receipt import Receipt, verify_chain
from unsc.release.release import Handled, handle, rehearse
from unsc.release.store import Store
from unsc.release.taking_back import rollback

STRICT = Policy(limits={**LIMITS, "retained_kl": 0.0}, required=("forget_acc", "retained_kl"))
"""Lets nothing pass."""


class Desk:
    """A store, a key and folders for results."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, make_store(folder / "store")
        self.key = PrivateKey.create(folder / "keys" / "key.pem")

    def handle(self, name: str, asked: Asked, policy: Policy = POLICY) -> Handled:
        return handle(self.store, asked, Forgetting(self.store), policy=policy, key=self.key, out=self.folder / name)

    def model(self, name: str) -> dict[str, torch.Tensor]:
        return load_file(self.folder / name / "model" / "model.safetensors")

    def receipt(self, name: str) -> Receipt:
        return Receipt.load(self.folder / name / "receipt.json")

    def everything(self) -> dict[str, bytes]:
        files = [path for path in self.folder.rglob("*") if path.is_file() and "sqlite" not in path.name]
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in sorted(files)}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def share_called(weights: dict[str, torch.Tensor], k: int) -> float:
    """How many of class k are still called so, as a share."""
    from blobs import network

    model = network()
    model.load_state_dict(weights)
    points, labels = DATA.tensors
    with torch.no_grad():
        return (model(points[labels == k]).argmax(1) == k).float().mean().item()


def test_three_requests_in_sequence(desk: Desk) -> None:
    """A class, records and a user's records: each from the last released model, all signed, the class stays gone."""
    wanted = Asked(classes=("bee",)), Asked(ids=("s0", "s41")), Asked(users=(User("user", "ann"),))
    done = [desk.handle(f"run{i}", asked) for i, asked in enumerate(wanted)]
    assert [handled.released for handled in done] == [True] * 3
    assert [handled.entry.kind for handled in done] == ["classes", "records", "records"]
    assert [done[i].entry.child == done[i + 1].entry.parent for i in range(2)] == [True, True]
    receipts = [desk.receipt(f"run{i}") for i in range(3)]
    verify_chain(receipts, desk.key.public)
    for i, receipt in enumerate(receipts):
        receipt.verify_weights(desk.folder / f"run{i}" / "model")
    for i in range(3):
        assert share_called(desk.model(f"run{i}"), 1) <= 0.01
    manifest = Store(desk.store).manifest
    assert manifest.gone == (1,) and len(manifest.samples) == 80 - 20 - 2 - 2  # one of ann's three was a bee
    assert manifest.weights == done[2].entry.child
    assert done[1].copies == ("s1",) and receipts[1].content["request"]["copies_left"] == 1
    with pytest.raises(NotVerified, match="number 2"):
        verify_chain([receipts[0], receipts[2]], desk.key.public)


def test_what_is_deleted_is_in_no_file(desk: Desk) -> None:
    """But for its hash, if a copy stays. Nor is any id in what is handed out."""
    fingerprint = Store(desk.store).manifest.samples["s41"].fingerprint.encode()
    desk.handle("run", Asked(ids=("s41", "s0")))
    ledgers = [path.read_bytes() for path in desk.store.glob("*.sqlite*")]
    for content in (*desk.everything().values(), *ledgers):
        assert b'"s41"' not in content and b'"s0"' not in content and fingerprint not in content


def test_a_request_is_carried_out_once(desk: Desk) -> None:
    first = desk.handle("run", Asked(classes=("bee",)))
    before = desk.everything()
    for asked in (("bee",), ("1",), ("1", "bee")):
        again = desk.handle("elsewhere", Asked(classes=asked))
        assert again.entry == first.entry
    assert desk.everything() == before


def test_the_gate_keeps_a_candidate_aside(desk: Desk) -> None:
    """No model under its final name, the store as it was; with another policy the same folder takes the release."""
    store = {name: content for name, content in desk.everything().items() if name.startswith("store")}
    refused = desk.handle("run", Asked(classes=("bee",)), STRICT)
    assert not refused.released and refused.entry.state == "refused"
    failed = [verdict for verdict in refused.verdicts if not verdict.passed]
    assert [verdict.check for verdict in failed] == ["retained_kl"] and "too much" in failed[0].advice
    assert [path.name for path in (desk.folder / "run").iterdir()] == ["refused-1"]
    assert {path.name for path in (desk.folder / "run" / "refused-1").iterdir()} == {"model", "report.json"}
    assert {name: content for name, content in desk.everything().items() if name.startswith("store")} == store
    assert desk.handle("run", Asked(classes=("bee",))).released


def test_a_rehearsal_leaves_everything(desk: Desk) -> None:
    before = desk.everything()
    for policy, passed in ((POLICY, True), (STRICT, False)):
        done = rehearse(desk.store, Asked(classes=("bee",)), Forgetting(desk.store), policy=policy)
        assert done.passed is passed and len(done.resolved.ids) == 20
    assert desk.everything() == before
    with read_ledger(desk.store) as ledger:
        assert ledger.entries() == ()


def test_an_error_while_forgetting_leaves_nothing(desk: Desk) -> None:
    before = desk.everything()

    def fails(resolved: Resolved, parent: Path | None) -> Made:
        raise InvalidData("no samples")

    def saves_half(resolved: Resolved, parent: Path | None) -> Made:
        def save(folder: Path) -> None:
            (folder / "half").write_bytes(b"half")
            raise OSError(28, "No space left on device")

        return replace(Forgetting(desk.store)(resolved, parent), save=save)

    for make in (fails, saves_half):
        with pytest.raises((InvalidData, InvalidRequest)):
            handle(desk.store, Asked(classes=("1",)), make, policy=POLICY, key=desk.key, out=desk.folder / "run")
        assert desk.everything() == before and not (desk.folder / "run").exists()
    with read_ledger(desk.store) as ledger:
        assert [entry.state for entry in ledger.entries()] == ["dropped", "dropped"]


def test_two_processes_on_one_store(desk: Desk) -> None:
    with open_ledger(desk.store), pytest.raises(StoreIsBusy, match="another process is working"):
        handle(
            desk.store, Asked(classes=("1",)), Forgetting(desk.store), policy=POLICY, key=desk.key,
            out=desk.folder / "run", wait=0.05,
        )  # fmt: skip
    assert not (desk.folder / "run").exists()


@pytest.mark.parametrize("name", ["store/run", "store", ".", "taken"])
def test_folders_that_are_refused(desk: Desk, name: str) -> None:
    (desk.folder / "taken").mkdir()
    (desk.folder / "taken" / "letter.txt").write_text("mine")
    before = desk.everything()
    with pytest.raises(InvalidRequest, match="name"):
        desk.handle(name, Asked(classes=("1",)))
    assert desk.everything() == before


def test_links_in_a_run_folder_are_not_followed(desk: Desk) -> None:
    """Parts have names that can be foreseen; a link of that name leads nothing out of the folder."""
    victim = desk.folder / "victim"
    victim.mkdir()
    (desk.folder / "run").mkdir()
    for name in (".part-1", "model", "receipt.json"):
        (desk.folder / "run" / name).symlink_to(victim)
    with pytest.raises(InvalidRequest):
        desk.handle("run", Asked(classes=("1",)))
    (desk.store / ".next-1").symlink_to(victim)
    with pytest.raises(InvalidRequest):
        desk.handle("other", Asked(classes=("1",)))
    assert list(victim.iterdir()) == []


def test_a_rollback_is_allowed_by_policy_alone(desk: Desk) -> None:
    first, second = desk.handle("run0", Asked(classes=("bee",))), desk.handle("run1", Asked(classes=("cat",)))
    allowed = replace(POLICY, rollback=True)
    with pytest.raises(NotAllowed, match="allowed = true"):
        rollback(desk.store, 2, policy=POLICY, key=desk.key, out=desk.folder / "back")
    with pytest.raises(InvalidRequest, match="only the last release"):
        rollback(desk.store, 1, policy=allowed, key=desk.key, out=desk.folder / "back")
    entry = rollback(desk.store, 2, policy=allowed, key=desk.key, out=desk.folder / "back")
    assert (entry.kind, entry.parent, entry.child) == ("rollback", second.entry.child, first.entry.child)
    assert all(torch.equal(desk.model("back")[name], t) for name, t in desk.model("run0").items())
    receipts = [desk.receipt(name) for name in ("run0", "run1", "back")]
    verify_chain(receipts, desk.key.public)
    assert receipts[2].content["action"] == "rollback"
    with read_ledger(desk.store) as ledger:
        assert [e.state for e in ledger.entries()] == ["released", "rolled back", "released"]
    assert Store(desk.store).manifest.weights == first.entry.child
    with pytest.raises(InvalidRequest, match="prepare a new store"):
        desk.handle("run2", Asked(classes=("dog",)))
    with pytest.raises(InvalidRequest, match="there is none"):
        rollback(desk.store, 3, policy=allowed, key=desk.key, out=desk.folder / "back2")


def test_the_first_release_is_taken_back_with_the_original_weights(desk: Desk) -> None:
    desk.handle("run0", Asked(classes=("bee",)))
    allowed, out = replace(POLICY, rollback=True), desk.folder / "back"
    with pytest.raises(InvalidRequest, match="--weights"):
        rollback(desk.store, 1, policy=allowed, key=desk.key, out=out)
    with pytest.raises(InvalidData, match="does not hold the weights"):
        rollback(desk.store, 1, policy=allowed, key=desk.key, out=out, weights=desk.folder / "run0" / "model")
    write_weights(desk.folder / "original.safetensors")
    entry = rollback(desk.store, 1, policy=allowed, key=desk.key, out=out, weights=desk.folder / "original.safetensors")
    assert entry.state == "released" and share_called(load_file(out / "model" / "original.safetensors"), 1) > 0.9


def test_a_receipt_says_what_it_should(desk: Desk) -> None:
    handled = desk.handle("run", Asked(classes=("bee",)))
    content = desk.receipt("run").content
    assert content["parent"]["sha256"] == handled.entry.parent and content["child"]["sha256"] == handled.entry.child
    assert content["request"]["classes"] == ["bee"] and content["request"]["samples"] == 20
    assert content["metrics"]["forget_acc"].keys() == {"value", "low", "high", "n", "source"}
    assert content["policy"]["values"] == POLICY.to_dict() and len(content["code"]["sha256"]) == 64
    assert content["drift"] and any("does not prove" in line for line in content["does_not_prove"])
    salt = (desk.folder / "run" / "forgotten.salt").read_text().strip()
    assert desk.receipt("run").covers((f"s{i}" for i in range(20, 40)), salt)
    assert not desk.receipt("run").covers((f"s{i}" for i in range(20, 39)), salt)
    assert (desk.folder / "run" / "forgotten.salt").stat().st_mode & 0o777 == 0o600
    assert salt not in json.dumps(content)


def test_predicted_figures_are_said_to_be_so(desk: Desk) -> None:
    def predicts(resolved: Resolved, parent: Path | None) -> Made:
        made = Forgetting(desk.store)(resolved, parent)
        return replace(made, figures={**made.figures, "retained_kl": Figure(0.02, source="predicted")})

    done = handle(desk.store, Asked(classes=("1",)), predicts, policy=POLICY, key=desk.key, out=desk.folder / "run")
    assert done.released and "predictions" in desk.receipt("run").content["does_not_prove"][-1]


def test_every_changed_byte_of_weights_is_found(desk: Desk) -> None:
    desk.handle("run", Asked(classes=("bee",)))
    receipt, model = desk.receipt("run"), desk.folder / "run" / "model"
    file = model / "model.safetensors"
    good = file.read_bytes()
    for i in range(0, len(good), 97):
        file.write_bytes(good[:i] + bytes([good[i] ^ 1]) + good[i + 1 :])
        for path in (model, file):
            with pytest.raises(NotVerified):
                receipt.verify_weights(path)
    file.write_bytes(good)
    receipt.verify_weights(file)
    (model / "more").touch()
    with pytest.raises(NotVerified, match="more"):
        receipt.verify_weights(model)


def test_another_key_does_not_do(desk: Desk, tmp_path: Path) -> None:
    desk.handle("run", Asked(classes=("bee",)))
    other = PrivateKey.create(tmp_path / "other.pem")
    with pytest.raises(NotVerified, match="public key"):
        desk.receipt("run").verify(other.public)
    desk.receipt("run").verify(PublicKey.load(tmp_path / "keys" / "key.pub"))
