"""Records, end to end, on digits of which a tenth carries a wrong label that the network has learned by heart."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import ConcatDataset, Subset, TensorDataset

import unsc
from unsc.batches import Batch, HasSamples
from unsc.bench.datasets import Split
from unsc.bench.networks import digits_cnn
from unsc.bench.train import fit
from unsc.datasets import read_labels
from unsc.errors import GuessedTargetsWarning, InvalidData, InvalidRequest, NotForgotten, NotForgottenWarning
from unsc.result import Forgotten
from unsc.steps.budgeted import BudgetedRule, BudgetedStep
from unsc.targets import Lowered, Relabel, Scores, scores_of
from unsc.task import Task


@dataclass(frozen=True)
class Noisy:
    """A network, what it was trained on, and what it should have been trained on."""

    model: nn.Module
    train: TensorDataset
    clean: Tensor
    flipped: list[int]
    validation: TensorDataset
    test: TensorDataset

    def right(self, model: nn.Module, data: TensorDataset) -> float:
        """Percent of the data that a model classifies correctly."""
        x, y = data.tensors
        with torch.no_grad():
            return 100 * (model(x).argmax(dim=1) == y).double().mean().item()

    def flipped_as(self, labels: Tensor) -> TensorDataset:
        return TensorDataset(self.train.tensors[0][self.flipped], labels[self.flipped])


@pytest.fixture(scope="module")
def noisy(digits: Split) -> Noisy:
    x, y = digits.train.tensors
    g = torch.Generator().manual_seed(0)
    flipped = torch.randperm(len(x), generator=g)[: len(x) // 10].sort().values
    wrong = y.clone()
    wrong[flipped] = (y[flipped] + torch.randint(1, 10, (len(flipped),), generator=g)) % 10
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = digits_cnn()
    model = fit(model, x, wrong, epochs=20)
    tx, ty = digits.test.tensors
    halves = TensorDataset(tx[::2], ty[::2]), TensorDataset(tx[1::2], ty[1::2])
    return Noisy(model, TensorDataset(x, wrong), y, flipped.tolist(), *halves)


def some(noisy: Noisy, count: int = 60) -> list[int]:
    """Records with right labels."""
    return [i for i in range(len(noisy.train)) if i not in set(noisy.flipped)][:count]


@pytest.fixture(scope="module")
def unseen(noisy: Noisy) -> Forgotten:
    return unsc.forget(noisy.model, noisy.train, indices=noisy.flipped + some(noisy), validation=noisy.validation)


def same_weights(a: nn.Module, b: nn.Module) -> bool:
    return all(map(torch.equal, a.state_dict().values(), b.state_dict().values()))


def test_the_network_knows_wrong_labels_by_heart(noisy: Noisy) -> None:
    """Or the tests below would show nothing."""
    assert noisy.right(noisy.model, noisy.flipped_as(noisy.train.tensors[1])) > 90


@pytest.mark.parametrize("given", ["away", "relabel"])
def test_mislabelled_records_move_to_their_right_labels(noisy: Noisy, given: str) -> None:
    """Test samples profit: at least a third of the errors that the wrong labels brought are gone."""
    own: dict[str, Any] = {"targets": "away"} if given == "away" else {"new_labels": noisy.clean[noisy.flipped]}
    result = unsc.forget(noisy.model, noisy.train, indices=noisy.flipped, **own)
    assert result.metrics.stopped == "forgotten"
    assert noisy.right(result.model, noisy.flipped_as(noisy.train.tensors[1])) == 0
    assert noisy.right(result.model, noisy.flipped_as(noisy.clean)) > {"away": 90, "relabel": 99}[given]
    before, after = (100 - noisy.right(m, noisy.test) for m in (noisy.model, result.model))
    assert after < 2 / 3 * before


def test_metrics_are_those_of_the_result(noisy: Noisy, unseen: Forgotten) -> None:
    """Accuracies and the attack, counted here by themselves; the distance has fallen."""
    found = unseen.metrics.records
    assert found is not None and found.validation is not None
    assert found.targets == "unseen"
    assert found.distance < 0.1 * found.distance_before
    x, y = noisy.train.tensors
    records = TensorDataset(*(t[noisy.flipped + some(noisy)] for t in (x, y)))
    losses = {}
    for when, model in (("before", noisy.model), ("after", unseen.model)):
        with torch.no_grad():
            losses[when] = [
                nn.functional.cross_entropy(model(d.tensors[0]), d.tensors[1], reduction="none")
                for d in (records, noisy.validation)
            ]
    pairs = {when: (a[:, None] < b).double().mean().item() for when, (a, b) in losses.items()}
    assert found.acc == pytest.approx(noisy.right(unseen.model, records), abs=1e-3)
    assert found.acc_before == pytest.approx(noisy.right(noisy.model, records), abs=1e-3)
    assert found.validation.acc == pytest.approx(noisy.right(unseen.model, noisy.validation), abs=1e-3)
    assert found.validation.attack_auc_before == pytest.approx(pairs["before"], abs=0.01)
    assert found.validation.attack_auc == pytest.approx(pairs["after"], abs=0.01)
    assert found.validation.samples == len(noisy.validation)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_result_is_asked_anew_where_it_was_rounded(
    noisy: Noisy, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last look of a run said it already, of weights in float32."""
    asked: list[nn.Module] = []

    def noted(model: nn.Module, samples: HasSamples) -> Scores:
        asked.append(model)
        return scores_of(model, samples)

    monkeypatch.setattr("unsc.final.scores_of", noted)
    model = copy.deepcopy(noisy.model).to(dtype)
    result = unsc.forget(model, noisy.train, indices=some(noisy, 40), validation=noisy.validation)
    assert result.metrics.stopped == "forgotten"
    assert len(asked) == (dtype != torch.float32)


def test_the_result_says_what_was_done(noisy: Noisy, unseen: Forgotten, tmp_path: Path) -> None:
    """In its promise and its note, and in what is saved."""
    assert "not trained on" in unseen.metrics.promise
    assert "nats from what they should be" in unseen.metrics.note
    folder = unseen.save(tmp_path / "result")
    saved = json.loads((folder / "metrics.json").read_text())["records"]
    assert saved["validation"]["acc"] == unseen.metrics.records.validation.acc  # type: ignore[union-attr]
    given = unsc.forget(noisy.model, noisy.train, indices=[4, 2], new_labels=[1, 0], max_passes=1, least_gain=0)
    config = json.loads((given.save(tmp_path / "second") / "config.json").read_text())
    assert (config["indices"], config["new_labels"], config["options"]["targets"]) == ([2, 4], [0, 1], "relabel")


def test_a_result_with_records_is_read_back(noisy: Noisy, unseen: Forgotten, tmp_path: Path) -> None:
    """What was measured, the new labels, and a rule with options of its own."""
    back = Forgotten.load(unseen.save(tmp_path / "unseen"), noisy.model)
    assert back.metrics == unseen.metrics
    data = ConcatDataset([noisy.train, Subset(noisy.train, [4])])
    options: dict[str, Any] = {"max_passes": 1, "least_gain": 0, "targets": Relabel(stop_kl=0.2)}
    given = unsc.forget(noisy.model, data, indices=[4, 2], new_labels=[1, 0], **options)
    back = Forgotten.load(given.save(tmp_path / "given"), noisy.model)
    assert back.metrics == given.metrics
    assert (back.request, back.options.targets) == (given.request, Relabel(stop_kl=0.2))


def test_a_second_request_finds_nothing_to_do(noisy: Noisy, unseen: Forgotten) -> None:
    """The same records once more: not a step, and nothing is said to be forgotten that was not known."""
    assert unseen.metrics.status == "forgotten" and unseen.ok
    records = unseen.request.records
    assert records is not None
    few = [i for i in records if i not in set(noisy.flipped)][:3]
    options: dict[str, Any] = {"indices": few, "targets": Lowered(shift=0.0, temperature=1.0)}
    with pytest.warns(NotForgottenWarning, match="did not know these records to begin with"):
        again = unsc.forget(unseen.model, noisy.train, **options)
    assert (again.metrics.steps, again.metrics.status, again.ok) == (0, "not known", False)
    assert again.metrics.records is not None and same_weights(again.model, unseen.model)
    assert again.metrics.promise.count(f"{again.metrics.records.distance:.4f}") == 1, "what did not move is said once"
    assert "from what they should be, as before" in again.metrics.promise


def test_what_is_not_reached_is_not_promised(noisy: Noisy) -> None:
    """Stopped early, or with a copy that stays: a warning, or an error."""
    records = some(noisy)
    options: dict[str, Any] = {"indices": records, "validation": noisy.validation}
    with pytest.warns(NotForgottenWarning, match="Not forgotten: predictions were"):
        early = unsc.forget(noisy.model, noisy.train, max_passes=1, budget=1e-5, **options)
    found = early.metrics.records
    assert not early.ok and found is not None
    assert early.metrics.promise.startswith(
        f"Not forgotten: predictions were {found.distance_before:.4f} nats from what they should be before and are "
        f"{found.distance:.4f} now; asked for was at most 0.01 (0.02 if no attack"
    )
    data = ConcatDataset([noisy.train, Subset(noisy.train, records[:1])])
    with pytest.raises(NotForgotten, match="1 of the records have copies in the data that stays"):
        unsc.forget(noisy.model, data, strict=True, **options)


def test_without_validation_data_it_says_that_it_guesses(noisy: Noisy) -> None:
    """Never silently; who asks for it by name is not warned."""
    options: dict[str, Any] = {"indices": some(noisy, 20)}
    with pytest.warns(GuessedTargetsWarning, match="without validation data nobody can tell"):
        result = unsc.forget(noisy.model, noisy.train, max_kl=1.0, **options)
    assert result.options.targets == "lowered"
    assert (result.metrics.stopped, result.metrics.status, result.ok) == ("forgotten", "not verified", False)
    assert result.metrics.promise.startswith("Not verified") and "guesses" in result.metrics.promise
    assert result.metrics.records is not None and result.metrics.records.validation is None
    own = unsc.forget(noisy.model, noisy.train, targets=Lowered(shift=3.0, temperature=1.0), max_passes=1, **options)
    assert own.options.to_dict()["targets"] == {"name": "lowered", "shift": 3.0, "temperature": 1.0, "stop_kl": 0.01}


def test_copies_are_reported_or_forgotten_too(noisy: Noisy) -> None:
    """Two records stand in the data once more, at its end."""
    records = some(noisy, 20)
    n = len(noisy.train)
    data = ConcatDataset([noisy.train, Subset(noisy.train, records[:2])])
    options: dict[str, Any] = {"indices": records, "targets": "lowered", "max_passes": 1}
    results = {how: unsc.forget(noisy.model, data, copies=how, **options) for how in ("ignore", "report", "include")}
    found = {how: r.metrics.records.copies for how, r in results.items()}  # type: ignore[union-attr]
    assert found["report"].exact == found["include"].exact == {records[0]: (n,), records[1]: (n + 1,)}
    assert found["ignore"].exact == {} and found["ignore"].looked_for == ()
    assert results["report"].request.records == tuple(records)
    assert results["include"].request.records == (*records, n, n + 1)
    assert "2 copies of records stay" in results["report"].metrics.note
    assert "forgotten with them" in results["include"].metrics.note


def test_validation_data_that_was_trained_on_is_left_out(noisy: Noisy) -> None:
    """And counted. If the search for copies is off, records among it are still found."""
    records = some(noisy, 20)
    mixed = ConcatDataset([Subset(noisy.train, range(200)), noisy.validation])
    options: dict[str, Any] = {"indices": records, "max_passes": 1, "least_gain": 0}
    for how, overlapping in (("report", 200), ("ignore", sum(i < 200 for i in records))):
        result = unsc.forget(noisy.model, noisy.train, validation=mixed, copies=how, **options)
        found = result.metrics.records.validation  # type: ignore[union-attr]
        assert found is not None
        assert (found.overlapping, found.samples) == (overlapping, len(mixed) - overlapping)
        assert f"{overlapping} validation samples are training data and were left out" in result.metrics.note
    with pytest.raises(InvalidData, match="0 validation samples after 200 that are training data were left out"):
        unsc.forget(noisy.model, noisy.train, validation=Subset(noisy.train, range(200)), **options)


def test_validation_data_of_classes_that_are_gone_is_left_out(noisy: Noisy) -> None:
    """A network is wrong on all of it, and records are not to be: the result is that of data without it."""
    gone, labels = 4, read_labels(noisy.validation)
    records = [i for i in some(noisy, 40) if int(noisy.train[i][1]) != gone][:20]
    without = Subset(noisy.validation, (labels != gone).nonzero().flatten().tolist())
    options: dict[str, Any] = {"indices": records, "gone": [gone], "max_passes": 1, "least_gain": 0}
    one, other = (unsc.forget(noisy.model, noisy.train, validation=v, **options) for v in (noisy.validation, without))
    assert one.metrics.records.validation.samples == len(without) < len(labels)  # type: ignore[union-attr]
    for name, p in one.model.state_dict().items():
        torch.testing.assert_close(p, other.model.state_dict()[name])
    alone = Subset(noisy.validation, (labels == gone).nonzero().flatten().tolist())
    with pytest.raises(InvalidData, match=f"0 validation samples after {len(alone)} that are of classes that are gone"):
        unsc.forget(noisy.model, noisy.train, validation=alone, **options)


@dataclass(frozen=True)
class Harm(BudgetedRule):
    """Noise on every weight: it costs much and brings nothing."""

    max_kl: ClassVar[float] = 100.0

    def start(self, model: nn.Module, task: Task, guide: unsc.RetainedCurvature) -> HarmStep:
        return HarmStep(model, task.layers, guide, task.watch, budget=self.budget)


class HarmStep(BudgetedStep):
    @torch.no_grad()
    def __call__(self, batch: Batch, targets: Tensor) -> None:
        generator = torch.Generator().manual_seed(len(batch))
        for p in self.parameters.values():
            p += 0.3 * p.std() * torch.randn(p.shape, generator=generator)


def test_what_only_harms_is_undone(noisy: Noisy) -> None:
    """The original comes back bit for bit, and the result says so."""
    model = copy.deepcopy(noisy.model).to(torch.bfloat16)
    options: dict[str, Any] = {"indices": some(noisy, 20), "validation": noisy.validation, "step": Harm()}
    result = unsc.forget(model, noisy.train, **options)
    assert (result.metrics.stopped, result.metrics.status) == ("undone", "not forgotten")
    assert "original came back" in result.metrics.promise
    assert "original came back" in result.metrics.note
    assert same_weights(result.model, model)
    assert result.metrics.retained_kl == 0
    assert result.metrics.steps > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"indices": [1, 2, 1]}, "names 1 more than once"),
        ({"indices": [1, 2], "new_labels": [3]}, "1 new_labels for 2 indices"),
        ({"indices": [1, 2], "new_labels": [3, 10]}, "new_labels holds 10; the model's classes are 0 to 9"),
        ({"indices": [1], "new_labels": [3], "targets": "away"}, "new_labels have no effect with targets='away'"),
        ({"classes": [1], "new_labels": [3]}, "new_labels are for records"),
        ({"classes": [1], "validation": TensorDataset(torch.zeros(30, 1, 8, 8), torch.zeros(30))}, "serve records"),
        ({"classes": [1], "targets": "unseen"}, "'unseen' does not serve classes"),
        ({"classes": [1], "copies": "ignore"}, "the option copies has no effect for classes"),
        ({"classes": [1], "least_gain": 0}, "the option least_gain has no effect for classes"),
        ({"indices": [1], "targets": "unseen"}, "0 validation samples"),
        ({"indices": [1], "targets": "relabel"}, "give new_labels"),
        ({"indices": [1], "copies": "delete"}, "copies='delete'; allowed is 'ignore', 'report' or 'include'"),
        ({"indices": [1], "near_copies": 2}, "near_copies=2; allowed is a cosine"),
    ],
)
def test_bad_requests_are_refused(noisy: Noisy, options: dict[str, Any], message: str) -> None:
    with pytest.raises((InvalidRequest, InvalidData), match=message):
        unsc.forget(noisy.model, noisy.train, **options)


def test_records_that_are_all_their_class_has_are_refused(noisy: Noisy) -> None:
    own = (noisy.train.tensors[1] == 4).nonzero().flatten().tolist()
    with pytest.raises(InvalidRequest, match=r"leave no sample of class 4; forget it with classes=\[4\]"):
        unsc.forget(noisy.model, noisy.train, indices=own, validation=noisy.validation)


def test_bad_validation_data_is_refused(noisy: Noisy) -> None:
    x, y = noisy.validation.tensors
    for data, message in (
        (TensorDataset(x[:19], y[:19]), "19 validation samples; give at least 20"),
        (TensorDataset(x, y + 10), "the validation data holds the labels 10, 11"),
    ):
        with pytest.raises(InvalidData, match=message):
            unsc.forget(noisy.model, noisy.train, indices=[1, 2], validation=data)
