"""The samples and reference models of an RMIA, drawn from a case."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unsc.errors import InvalidData
from unsc.evaluation.shared import rmia
from unsc.evaluation.shared.attacks import enough, log_probability
from unsc.evaluation.shared.case import Case, Part, References
from unsc.request import of_classes


@dataclass(frozen=True)
class Side:
    """Some samples of a part, and what the reference models say of them."""

    part: Part
    chosen: Tensor
    """Positions in the part, (n,)."""
    log_p: Tensor
    """The reference models' log p, (models, n)."""
    unseen: Tensor
    """Which models count, because they did not see the sample: bool (models, n)."""


@dataclass(frozen=True)
class Contest:
    """Members against outsiders, which were never trained on, and a population z, which was not either."""

    members: Side
    outsiders: Side
    population: Side
    a: float
    """The slope of `rmia.slope`."""

    def scores(self, case: Case) -> tuple[Tensor, Tensor]:
        """The scores of members and of outsiders by the model of the case."""
        x, y, z = (
            rmia.log_ratio(_log_p(case, side.part, case.model)[side.chosen], side.log_p, side.unseen, self.a)
            for side in (self.members, self.outsiders, self.population)
        )
        return rmia.score(x, z), rmia.score(y, z)

    @property
    def detail(self) -> dict[str, object]:
        sides = {"members": self.members, "non_members": self.outsiders, "population": self.population}
        sizes = {name: len(side.chosen) for name, side in sides.items()}
        return {"references": len(self.members.log_p), "a": self.a, "gamma": rmia.GAMMA, **sizes}


def contest(case: Case, train: Part, validation: Part, test: Part) -> Contest:
    """Members from `train`, outsiders from `test`, the population from `validation` or else half of `test`.

    Drawn by the seed of the case alone, so that two models are attacked on the same samples.
    """
    references = case.needed("references")
    generator = torch.Generator().manual_seed(case.seed)
    models, saw = references.models, _saw(references, train, len(case.parts[train]))
    labels, held_out = case.labels(train).cpu(), torch.randperm(len(case.parts[test]), generator=generator)
    if validation in case.parts:
        origin, population = validation, torch.arange(len(case.parts[validation]))
    else:
        half = len(held_out) // 2
        origin, population, held_out = test, held_out[:half], held_out[half:]
    test_labels = case.labels(test).cpu()[held_out]
    members = (~saw.all(dim=0) & of_classes(labels, test_labels.unique().tolist())).nonzero().flatten()
    enough(len(members), f"samples of {train} that some reference model did not see and whose class {test} has")
    outsiders = held_out[rmia.same_mix(labels[members], test_labels, generator)]
    enough(len(outsiders), f"samples of {test} of the classes of {train}")
    enough(len(population), f"samples of {origin} to compare with")

    def side(part: Part, chosen: Tensor) -> Side:
        # As many models count for it as for a training sample: a mean of more models would be another number.
        like = members[torch.randint(len(members), (len(chosen),), generator=generator)]
        return Side(part, chosen, _by_all(case, part, models)[:, chosen], ~saw[:, like])

    log_p = _by_all(case, train, models)
    inside = Side(train, members, log_p[:, members], ~saw[:, members])
    return Contest(inside, side(test, outsiders), side(origin, population), rmia.slope(log_p, saw))


def _saw(references: References, part: Part, samples: int) -> Tensor:
    saw = references.saw.get(part)
    expected = len(references.models), samples
    if saw is None or tuple(saw.shape) != expected or len(saw) == 0:
        got = "nothing" if saw is None else f"shape {tuple(saw.shape)}"
        raise InvalidData(
            f"references.saw[{part!r}] has {got}; say which of one or more models saw which sample, bool {expected}"
        )
    return saw.cpu().bool()


def _log_p(case: Case, part: Part, model: nn.Module) -> Tensor:
    return log_probability(case.logits(part, model), case.labels(part).cpu())


def _by_all(case: Case, part: Part, models: tuple[nn.Module, ...]) -> Tensor:
    return torch.stack([_log_p(case, part, model) for model in models])
