"""SCRUB: whom the student obeys, and when."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import TensorDataset
from typed import tensors_of

from unsc.batches import Batch
from unsc.methods import Problem
from unsc.methods.scrub import in_turns, scrub
from unsc.request import Request


def _accuracy(model: nn.Module, batch: Batch) -> float:
    with torch.no_grad():
        return (model(batch.inputs).argmax(dim=1) == batch.labels).float().mean().item()


def _tiny() -> Problem:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    forget = TensorDataset(torch.randn(6, 4).double(), torch.zeros(6, dtype=torch.long))
    retain = TensorDataset(torch.randn(8, 4).double(), torch.arange(8) % 2 + 1)
    return Problem(model, Request.for_classes([0], 3), forget=forget, retain=retain)


def test_equals_the_published_steps_written_out() -> None:
    """Whole parts as batches: max, min, max, min, min; plain sums for divergences; momentum by hand."""
    problem = _tiny()
    (gone, _), (kept, labels) = tensors_of(problem.forget), tensors_of(problem.retain)
    teacher, student = problem.copy(), problem.copy()
    lr, alpha, gamma, t, decay = 0.05, 0.3, 0.7, 2.0, 0.01
    velocity = [torch.zeros_like(p) for p in student.parameters()]

    def divergence(inputs: torch.Tensor) -> torch.Tensor:
        p, q = (torch.softmax(m(inputs) / t, dim=1) for m in (teacher, student))
        return t**2 * (p.detach() * (p.detach() / q).log()).sum() / len(inputs)

    for kind in ("max", "min", "max", "min", "min"):
        if kind == "max":
            loss = -divergence(gone)
        else:
            right = torch.softmax(student(kept), dim=1)[torch.arange(8), labels]
            loss = gamma * -right.log().mean() + alpha * divergence(kept)
        gradients = torch.autograd.grad(loss, list(student.parameters()))
        with torch.no_grad():
            for p, g, v in zip(student.parameters(), gradients, velocity, strict=True):
                v.mul_(0.9).add_(g + decay * p)
                p.sub_(lr * v)
    found = scrub(problem, lr=lr, epochs=3, max_epochs=2, alpha=alpha, gamma=gamma, temperature=t, weight_decay=decay)
    for a, b in zip(found.parameters(), student.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_pure_obedience_changes_nothing() -> None:
    """The student is its teacher: a divergence alone has nothing to do."""
    problem = _tiny()
    model = scrub(problem, lr=1.0, epochs=3, max_epochs=0, alpha=1.0, gamma=0.0, weight_decay=0.0)
    for a, b in zip(model.parameters(), problem.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_turns() -> None:
    assert "".join(in_turns("abcd", "xyz", [(2, 1), (0, 1), (1, 1)])) == "abxycz"


def test_a_class_is_forgotten(digits_problem: Problem, digits_parts: dict) -> None:
    model, tuned = (scrub(digits_problem, lr=1e-3, epochs=n, max_epochs=m) for n, m in ((5, 3), (2, 0)))
    for part in ("train", "test"):
        assert _accuracy(tuned, digits_parts[f"forget_{part}"]) > 0.8  # only maximising makes it forget
        assert _accuracy(model, digits_parts[f"forget_{part}"]) < 0.05
        assert _accuracy(model, digits_parts[f"retain_{part}"]) > 0.9
