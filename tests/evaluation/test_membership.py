"""The attacks on networks that memorise: they find what was trained on, and nothing in what was not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.bench.datasets import Split
from unsc.errors import InvalidData, InvalidRequest
from unsc.evaluation import membership
from unsc.evaluation.membership import (
    confidence_attack,
    relative_attack,
    retained_privacy,
    shadow_attack,
    shadow_attack_on_kept_classes,
)
from unsc.evaluation.shared.case import Case, Part, References, Shadows
from unsc.evaluation.shared.metrics import measure
from unsc.methods.logit_mask import LogitMask
from unsc.request import Request

GONE = 3


@pytest.fixture(autouse=True)
def few_for_the_svc(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes most of the time, and 300 of each are enough here."""
    monkeypatch.setattr(membership, "_MOST", 300)


def memorise(batch: Batch, seed: int) -> nn.Module:
    """A wide network trained until it knows every label by heart, wrong ones as well."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    for _ in range(120):
        optimizer.zero_grad()
        F.cross_entropy(model(batch.inputs), batch.labels).backward()
        optimizer.step()
    assert (model(batch.inputs).argmax(dim=1) == batch.labels).double().mean() > 0.99
    return model.eval()


@pytest.fixture(scope="module")
def noisy(digits: Split) -> tuple[Batch, Batch]:
    """900 digits to train on and as many to test on, three in ten of either with a label drawn at random."""
    g = torch.Generator().manual_seed(0)
    x, y = (torch.cat(both) for both in zip(digits.train.tensors, digits.test.tensors, strict=True))
    order = torch.randperm(len(x), generator=g)
    x, y = x[order], y[order]
    y = torch.where(torch.rand(len(y), generator=g) < 0.3, torch.randint(10, (len(y),), generator=g), y)
    return Batch(x[:900], y[:900]), Batch(x[900:], y[900:])


def split(train: Batch, test: Batch, gone: Tensor, gone_test: Tensor) -> dict[Part, Batch]:
    return {
        "forget_train": train[gone],
        "retain_train": train[~gone],
        "forget_test": test[gone_test],
        "retain_test": test[~gone_test],
    }


@pytest.fixture(scope="module")
def halves(noisy: tuple[Batch, Batch]) -> tuple[tuple[nn.Module, ...], Tensor]:
    """Six models, each trained on a half of the training samples, and who saw what (models, samples)."""
    train = noisy[0]
    g = torch.Generator().manual_seed(1)
    saw = torch.stack([torch.randperm(len(train), generator=g) < len(train) // 2 for _ in range(6)])
    return tuple(memorise(train[seen], 10 + k) for k, seen in enumerate(saw)), saw


@pytest.fixture(scope="module")
def of_classes(noisy: tuple[Batch, Batch], halves: tuple[tuple[nn.Module, ...], Tensor]) -> Case:
    """The original, judged as if it had forgotten all samples with the label 3."""
    (train, test), (models, saw) = noisy, halves
    gone = train.labels == GONE
    parts = split(train, test, gone, test.labels == GONE)
    references = References(models, {"forget_train": saw[:, gone], "retain_train": saw[:, ~gone]})
    original, retrained, twin = memorise(train, 0), memorise(train[~gone], 1), memorise(train[~gone], 2)
    return Case(original, Request.for_classes([GONE], 10), parts, original, retrained, twin, references)


@pytest.fixture(scope="module")
def of_records(noisy: tuple[Batch, Batch], halves: tuple[tuple[nn.Module, ...], Tensor], of_classes: Case) -> Case:
    """The original, judged as if it had forgotten the first 200 samples."""
    (train, test), (models, saw) = noisy, halves
    gone = torch.arange(len(train)) < 200
    parts = split(train, test, gone, torch.arange(len(test)) % 2 == 0)
    references = References(models, {"forget_train": saw[:, gone], "retain_train": saw[:, ~gone]})
    original, retrained = of_classes.model, memorise(train[~gone], 3)
    return Case(original, Request.for_records(None, 10), parts, original, retrained, references=references)


@pytest.fixture(scope="module")
def shadowed(of_classes: Case) -> Case:
    """With three shadows of either kind, for a method that masks the logit."""
    parts = of_classes.parts
    everything = Batch(
        torch.cat([parts["forget_train"].inputs, parts["retain_train"].inputs]),
        torch.cat([parts["forget_train"].labels, parts["retain_train"].labels]),
    )
    masked = tuple(LogitMask(memorise(everything, 20 + k), [GONE]) for k in range(3))
    retrained = tuple(memorise(parts["retain_train"], 30 + k) for k in range(3))
    return replace(of_classes, shadows=Shadows(masked, retrained))


def retrained_of(case: Case) -> Case:
    assert case.retrained is not None
    return case.of(case.retrained)


def test_the_papers_attack_tells_the_original_from_a_retrained_model(of_classes: Case) -> None:
    """It takes most of what the original memorised for members, and next to nothing in a retrained model."""
    before, after = confidence_attack(of_classes), confidence_attack(retrained_of(of_classes))
    for name in ("mia_confidence", "mia_loss"):
        found = before[name]
        assert found.low is not None and found.high is not None
        assert found.low <= found.value <= found.high < 0.5
        assert found.n == len(of_classes.parts["forget_train"])
        assert found.detail["attack_accuracy"] > 0.6
        assert after[name].value > 0.95
    assert before["mia_entropy"].value < 0.5


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Tensor, Tensor, Tensor]]:
    """What SVCs were given, in the order of the metrics: confidence, loss, entropy."""
    calls: list[tuple[Tensor, Tensor, Tensor]] = []

    def watched(members: Tensor, outsiders: Tensor, judged: Tensor) -> tuple[Tensor, float]:
        calls.append((members, outsiders, judged))
        return judged > 0, 0.5

    monkeypatch.setattr(membership, "take_for_outsiders", watched)
    return calls


def test_the_svc_learns_from_a_draw_of_balanced_size(
    of_classes: Case, given: list[tuple[Tensor, Tensor, Tensor]]
) -> None:
    """By the seed, at most so many of each, and never more than there are of the scarcer kind."""
    for seed in (0, 0, 5):
        confidence_attack(replace(of_classes, seed=seed))
    first, again, other = given[::3]
    for kind in range(2):
        assert len(first[kind]) == 300
        assert torch.equal(first[kind], again[kind])
        assert not torch.equal(first[kind], other[kind])
    assert torch.equal(first[2], other[2])
    few: dict[Part, Batch] = {**of_classes.parts, "retain_test": of_classes.parts["retain_test"][torch.arange(40)]}
    confidence_attack(replace(of_classes, parts=few, _logits={}))
    assert [len(x) for x in given[-1][:2]] == [40, 40]


def test_a_loss_beyond_all_known_ones_is_judged_as_the_greatest(
    of_classes: Case, given: list[tuple[Tensor, Tensor, Tensor]]
) -> None:
    """A masked class has losses of 1e4, where an SVC knows nothing; its confidence is given as it is."""
    confidence_attack(of_classes.of(LogitMask(of_classes.model, [GONE])))
    (_, _, confidence), (members, outsiders, loss), _ = given
    assert (loss == torch.cat([members, outsiders]).max()).all()
    assert (confidence == 0).all()


@pytest.mark.parametrize("kind", ["of_classes", "of_records"])
def test_rmia_finds_members_and_is_at_chance_on_a_retrained_model(kind: str, request: pytest.FixtureRequest) -> None:
    """Averaged over draws of the population; one draw's interval contains 0.5 and what was measured."""
    case: Case = request.getfixturevalue(kind)
    found = relative_attack(case)
    auc, tpr = found["rmia_auc"], found["rmia_tpr"]
    assert auc.low is not None and auc.high is not None and tpr.low is not None and tpr.high is not None
    assert 0.5 < auc.low <= auc.value <= auc.high <= 1
    assert auc.value > 0.65
    assert 0 <= tpr.low <= tpr.value <= tpr.high <= 1
    after = [relative_attack(replace(retrained_of(case), seed=seed))["rmia_auc"] for seed in range(5)]
    assert sum(v.value for v in after) / 5 == pytest.approx(0.5, abs=0.06)
    low, high = after[0].low, after[0].high
    assert low is not None and high is not None and low < 0.5 < high


def test_rmia_says_what_it_could_resolve(of_classes: Case) -> None:
    """Half of the test samples are negatives, the other half the population; with validation samples all are."""
    tests = len(of_classes.parts["forget_test"])
    value = relative_attack(of_classes)["rmia_tpr"]
    assert value.detail["references"] == 6
    assert value.detail["population"] == tests // 2
    assert value.detail["non_members"] == tests - tests // 2
    assert value.detail["smallest_fpr"] == 1 / value.detail["non_members"]
    assert value.n == value.detail["members"] + value.detail["non_members"]
    parts: dict[Part, Batch] = {**of_classes.parts, "forget_validation": of_classes.parts["forget_test"]}
    detail = relative_attack(replace(of_classes, parts=parts))["rmia_auc"].detail
    assert detail["population"] == detail["non_members"] == tests


class Lookup(nn.Module):
    """Gives each sample the logits that its input holds: any classifier at all."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.shift = nn.Parameter(torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x + self.shift


def exchangeable(seed: int, scale: float) -> Case:
    """Samples that nothing tells apart, for references that were trained on a random half of them, so they say."""
    g = torch.Generator().manual_seed(seed)
    names: tuple[Part, ...] = ("forget_train", "retain_train", "forget_test", "retain_test")
    parts: dict[Part, Batch] = {
        name: Batch(scale * torch.randn(n, 4, generator=g), torch.zeros(n, dtype=torch.int64))
        for name, n in zip(names, (100, 20, 200, 20), strict=True)
    }
    references = []
    for _ in range(4):
        model = Lookup()
        model.shift.data = torch.randn(4, generator=g)
        references.append(model)
    saw: dict[Part, Tensor] = {"forget_train": torch.rand(4, 100, generator=g) < 0.5}
    return Case(Lookup(), Request.for_classes([0], 4), parts, references=References(tuple(references), saw))


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
def test_rmia_is_at_chance_where_nothing_differs(scale: float) -> None:
    """Whatever the classifier predicts: always the same, something, or with logits up to 1e4 and beyond."""
    found = [relative_attack(exchangeable(seed, scale))["rmia_auc"] for seed in range(25)]
    assert sum(v.value for v in found) / 25 == pytest.approx(0.5, abs=0.025)  # three standard errors
    covered = sum(v.low <= 0.5 <= v.high for v in found)  # type: ignore[operator]
    assert covered >= 20  # 24 are expected, and fewer than 20 come less than once in a hundred times


def test_a_sample_that_every_reference_saw_is_left_out(of_classes: Case) -> None:
    assert of_classes.references is not None
    saw = dict(of_classes.references.saw)
    saw["forget_train"] = saw["forget_train"].clone()
    saw["forget_train"][:, :7] = True
    case = replace(of_classes, references=replace(of_classes.references, saw=saw))
    before, after = (relative_attack(c)["rmia_auc"].detail["members"] for c in (of_classes, case))
    assert (~saw["forget_train"].all(dim=0)).sum() == after < before


def test_u_lira_catches_a_mask(shadowed: Case) -> None:
    """Log-odds of -1e4 are nothing that retraining gives."""
    assert shadowed.original is not None
    found = shadow_attack(shadowed.of(LogitMask(shadowed.original, [GONE])))
    assert found["ulira_auc"].value > 0.99
    assert found["ulira_tpr"].value > 0.95
    assert found["ulira_auc"].detail["variance"] == "pooled"
    assert found["ulira_auc"].detail["unlearned_shadows"] == found["ulira_auc"].detail["retrained_shadows"] == 3


def test_u_lira_compares_with_every_retrained_model_but_the_judged_one(shadowed: Case) -> None:
    """The shadows take part, each left out of its own fit; with two of them nothing would be left to fit to."""
    retrained, twin, shadows = shadowed.retrained, shadowed.twin, shadowed.shadows
    assert retrained is not None and twin is not None and shadows is not None
    counts = {
        model: shadow_attack(shadowed.of(model))["ulira_auc"].detail["retrained_models"]
        for model in (retrained, twin, shadowed.model)
    }
    assert counts == {retrained: 1 + 3, twin: 1 + 3, shadowed.model: 2 + 3}
    few = replace(shadowed, shadows=Shadows(shadows.unlearned[:2], shadows.retrained[:2]))
    alone = shadow_attack(replace(few, model=retrained, twin=None))["ulira_auc"]  # with itself, for want of others
    assert (alone.value, alone.low, alone.high) == (0.5, 0.5, 0.5)
    one, other = (shadow_attack(few.of(model))["ulira_auc"].value for model in (retrained, twin))
    assert one == pytest.approx(1 - other) and one != 0.5


def test_one_shadow_has_no_variance(shadowed: Case) -> None:
    assert shadowed.shadows is not None
    few = Shadows(shadowed.shadows.unlearned[:1], shadowed.shadows.retrained)
    with pytest.raises(InvalidData, match=r"1 unlearned and 3 retrained shadows.*at least 2"):
        shadow_attack(replace(shadowed, shadows=few))


def test_over_kept_classes_a_mask_hides_nothing(shadowed: Case) -> None:
    """The forgotten output is left out: the masked original and the original are the same to the attack."""
    assert shadowed.original is not None
    plain, masked = (
        shadow_attack_on_kept_classes(shadowed.of(model))
        for model in (shadowed.original, LogitMask(shadowed.original, [GONE]))
    )
    assert plain == masked
    assert plain["ulira_kept_auc"].value > 0.6
    assert plain["ulira_kept_auc"].detail["on_shadows"].keys() >= {plain["ulira_kept_auc"].detail["statistic"]}


def test_over_kept_classes_retraining_is_at_chance(shadowed: Case) -> None:
    """Shadows of retraining against retraining: nothing is to be found. The models are few, and differ as a whole."""
    train = shadowed.parts["retain_train"]
    case = replace(
        retrained_of(shadowed),
        shadows=Shadows(tuple(memorise(train, 40 + k) for k in range(3)), shadowed.needed("shadows").retrained),
    )
    assert shadow_attack_on_kept_classes(case)["ulira_kept_auc"].value == pytest.approx(0.5, abs=0.1)


def test_the_attack_over_kept_classes_needs_classes(shadowed: Case) -> None:
    records = replace(shadowed, request=Request.for_records(None, 10))
    with pytest.raises(InvalidRequest, match="whole classes only"):
        shadow_attack_on_kept_classes(records)
    with pytest.raises(InvalidRequest, match="one class stays"):
        shadow_attack_on_kept_classes(replace(shadowed, request=Request.for_classes(range(9), 10)))


def test_retained_privacy_is_a_difference_to_the_original(of_records: Case) -> None:
    """None for the original itself; for a model that forgot what it memorised less can be told."""
    same = retained_privacy(of_records)["retain_privacy_change"]
    assert (same.value, same.low, same.high) == (0, 0, 0)
    assert same.detail["auc"] > 0.6
    fresh = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    changed = retained_privacy(of_records.of(fresh))["retain_privacy_change"]
    assert changed.value == pytest.approx(changed.detail["auc"] - changed.detail["original_auc"])
    assert changed.detail["original_auc"] == same.detail["auc"]
    assert changed.low is not None and changed.high is not None
    assert changed.low <= changed.value <= changed.high < 0


def test_the_paired_interval_is_narrower_than_that_of_one_attack(of_records: Case) -> None:
    """Two models that hardly differ are compared on the same draws."""
    assert isinstance(of_records.model, nn.Sequential)
    near = nn.Sequential(*list(of_records.model)[:-1], nn.Linear(96, 10))
    last = of_records.model[-1]
    assert isinstance(last, nn.Linear)
    near[-1].weight.data, near[-1].bias.data = 0.95 * last.weight.data, last.bias.data.clone()
    changed = retained_privacy(of_records.of(near))["retain_privacy_change"]
    alone = relative_attack(of_records)["rmia_auc"]
    widths = [v.high - v.low for v in (changed, alone)]  # type: ignore[operator]
    assert 0 < widths[0] < widths[1] / 3


def test_logits_at_the_far_ends_give_finite_values(shadowed: Case) -> None:
    """A masked class, and a model that is certain of everything."""
    assert shadowed.original is not None
    sharp = nn.Sequential(shadowed.original, nn.Linear(10, 10, bias=False))
    sharp[1].weight.data = 1e4 * torch.eye(10)
    for model in (LogitMask(shadowed.original, [GONE]), sharp):
        case = shadowed.of(model)
        attacks = confidence_attack, relative_attack, retained_privacy, shadow_attack, shadow_attack_on_kept_classes
        for attack in attacks:
            for value in attack(case).values():
                numbers = torch.tensor([value.value, value.low or 0.0, value.high or 0.0])
                assert torch.isfinite(numbers).all()


def test_too_few_samples_are_an_error_that_says_how_many(of_classes: Case, shadowed: Case) -> None:
    one = torch.arange(1)
    few: dict[Part, Batch] = {**of_classes.parts, "forget_test": of_classes.parts["forget_test"][one]}
    with pytest.raises(InvalidData, match=r"there are 1 samples of forget_test .*at least 5"):
        relative_attack(replace(of_classes, parts=few, _logits={}))
    few = {**of_classes.parts, "retain_test": of_classes.parts["retain_test"][one]}
    with pytest.raises(InvalidData, match=r"there are 1 retained samples.*at least 5"):
        confidence_attack(replace(of_classes, parts=few, _logits={}))
    few = {**shadowed.parts, "forget_train": shadowed.parts["forget_train"][one]}
    with pytest.raises(InvalidData, match=r"there are 1 forgotten training samples.*at least 5"):
        shadow_attack(replace(shadowed, parts=few, _logits={}))


def test_references_must_say_who_saw_what(of_classes: Case) -> None:
    assert of_classes.references is not None
    for saw, said in (({}, "nothing"), ({"forget_train": torch.ones(2, 3, dtype=torch.bool)}, r"shape \(2, 3\)")):
        references = References(of_classes.references.models, saw)  # type: ignore[arg-type]
        with pytest.raises(InvalidData, match=rf"forget_train.*has {said}.*bool \(6, "):
            relative_attack(replace(of_classes, references=references))


def test_what_is_needed_is_declared(of_classes: Case) -> None:
    """Without references and shadows the paper's attack alone is left; the rest says what it lacks."""
    bare = replace(of_classes, original=None, references=None, retrained=None)
    names = ["mia_confidence", "mia_loss", "mia_entropy"]
    assert list(measure(bare, names).values) == names
    lacking = {
        "rmia_auc": "reference models",
        "rmia_tpr": "reference models",
        "retain_privacy_change": "before unlearning.*reference models",
        "ulira_auc": "shadow models.*retrained without",
        "ulira_tpr": "shadow models.*retrained without",
        "ulira_kept_auc": "shadow models.*retrained without",
    }
    for name, what in lacking.items():
        with pytest.raises(InvalidRequest, match=f"{name} needs .*{what}"):
            measure(bare, [name])
