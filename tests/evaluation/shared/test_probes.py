"""Probes find what is there, and nothing where there is nothing."""

from __future__ import annotations

import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from unsc.errors import InvalidData
from unsc.evaluation.shared import probes
from unsc.evaluation.shared.probes import knn_probe, linear_probe, stratified


def clusters(n: int, d: int, apart: float, seed: int) -> tuple[Tensor, Tensor]:
    """Three classes with centres on the first three axes."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 3
    return torch.randn(n, d, generator=generator) + apart * torch.eye(d)[labels], labels


@pytest.mark.parametrize("probe", [linear_probe, knn_probe])
def test_separate_classes_are_told_apart(probe) -> None:
    x, labels = clusters(90, 5, 20.0, 0)
    unseen, truth = clusters(60, 5, 20.0, 1)
    assert torch.equal(probe(x, labels, unseen, seed=0), truth)


@pytest.mark.parametrize("probe", [linear_probe, knn_probe])
def test_equal_classes_are_guessed(probe) -> None:
    x, labels = clusters(300, 5, 0.0, 2)
    unseen, truth = clusters(300, 5, 0.0, 3)
    assert 0.2 < (probe(x, labels, unseen, seed=0) == truth).double().mean() < 0.47


@pytest.mark.parametrize(
    ("probe", "classifier"), [(linear_probe, LogisticRegression(max_iter=50)), (knn_probe, KNeighborsClassifier(5))]
)
def test_probes_are_scikit_learns_on_64_standardised_components(probe, classifier) -> None:
    x, labels = clusters(200, 100, 1.5, 4)
    unseen, _ = clusters(100, 100, 1.5, 5)
    x, unseen = x * torch.linspace(0.001, 1000, 100), unseen * torch.linspace(0.001, 1000, 100)
    scaler = StandardScaler().fit(x.double().numpy())
    pca = PCA(64, random_state=0).fit(scaler.transform(x.double().numpy()))
    seen, new = (pca.transform(scaler.transform(z.double().numpy())) for z in (x, unseen))
    expected = classifier.fit(seen, labels.numpy()).predict(new)
    assert probe(x, labels, unseen, seed=0).tolist() == expected.tolist()


@pytest.mark.parametrize("probe", [linear_probe, knn_probe])
def test_dead_features_give_an_answer_and_no_warning(probe) -> None:
    """Every warning is an error here."""
    labels = torch.tensor([0, 1, 1, 1, 1, 2, 1])
    assert probe(torch.zeros(7, 4), labels, torch.zeros(3, 4), seed=0).tolist() == [1, 1, 1]


def test_a_probe_that_needs_more_iterations_does_not_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_ITERATIONS", 1)
    x, labels = clusters(60, 40, 0.0, 6)
    with pytest.warns(ConvergenceWarning):
        LogisticRegression(max_iter=1).fit(x.numpy(), labels.numpy())
    assert linear_probe(x, labels, x, seed=0).shape == (60,)


def test_few_samples_are_enough() -> None:
    x, labels = torch.tensor([[0.0], [1.0]]), torch.tensor([4, 9])
    assert linear_probe(x, labels, torch.tensor([[-1.0], [2.0]]), seed=0).tolist() == [4, 9]
    assert knn_probe(x, labels, x, seed=0).shape == (2,)
    with pytest.raises(InvalidData, match="all samples are of class 4"):
        linear_probe(x, torch.tensor([4, 4]), x, seed=0)


def test_a_stratified_sample_keeps_shares() -> None:
    labels = torch.cat([torch.full((800,), 0), torch.full((199,), 1), torch.full((1,), 2)])
    labels = labels[torch.randperm(1000, generator=torch.Generator().manual_seed(0))]
    chosen = stratified(labels, 100, seed=0)
    assert labels[chosen].bincount().tolist() == [80, 20, 1]
    assert len(chosen.unique()) == len(chosen) and torch.equal(chosen, chosen.sort().values)
    assert torch.equal(chosen, stratified(labels, 100, seed=0))
    assert not torch.equal(chosen, stratified(labels, 100, seed=1))
    assert torch.equal(stratified(labels, 1000, seed=0), torch.arange(1000))
