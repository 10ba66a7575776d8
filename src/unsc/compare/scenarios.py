"""What methods are compared on: data in three parts, a network, and the way it is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, Subset

from unsc.batches import Batch
from unsc.cost import Cost
from unsc.datasets import check_map_style, read, read_labels, size_of
from unsc.errors import InvalidData, InvalidRequest, unknown
from unsc.evaluation.shared.case import Part
from unsc.loading.code import made_by
from unsc.methods import Problem, Recipe
from unsc.progress import Progress, quiet
from unsc.request import Request, of_classes

Third: TypeAlias = Literal["train", "validation", "test"]
Asked: TypeAlias = Sequence[int] | Request
"""The classes to forget, or a request for classes or records."""

_PARTS: dict[Third, tuple[Part, Part]] = {
    "train": ("forget_train", "retain_train"),
    "validation": ("forget_validation", "retain_validation"),
    "test": ("forget_test", "retain_test"),
}


@dataclass(frozen=True)
class Scenario:
    """Three map-style data sets that do not overlap, and how to get a trained network."""

    name: str
    train: Dataset
    validation: Dataset
    """Settings are chosen on it. No network is trained on it."""
    test: Dataset
    num_classes: int
    network: Callable[[], nn.Module]
    """A new, untrained network."""
    recipe: Recipe
    """Trains a new network on a data set with a seed."""
    resumable: Callable[[Dataset, int, Path], tuple[nn.Module, Cost]] | None = None
    """The same with a checkpoint file, for training that takes long, and its whole cost."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """How its networks are trained, as JSON has it: kept with them; those that were trained otherwise are refused."""

    def __post_init__(self) -> None:
        for third in ("train", "validation", "test"):
            found = set(self.labels(third).unique().tolist())
            if len(found) < 2:
                raise InvalidData(f"the {third} part of {self.name} has one class only; at least two are needed")
            if extra := found - set(range(self.num_classes)):
                raise InvalidData(
                    f"the {third} part of {self.name} has labels {sorted(extra)}; with {self.num_classes} classes they "
                    f"must be 0 to {self.num_classes - 1}"
                )
            if missing := set(range(self.num_classes)) - found:
                raise InvalidData(f"the {third} part of {self.name} has no sample of class {sorted(missing)}")

    def labels(self, third: Third) -> Tensor:
        return read_labels(getattr(self, third))

    def problem(
        self,
        model: nn.Module,
        asked: Asked,
        *,
        seed: int,
        gone: Sequence[int] = (),
        progress: Progress = quiet,
    ) -> Problem:
        """Forget what is `asked` from a network, whose classes `gone` were forgotten before.

        For records, half of the validation samples come with it; settings are chosen on the rest.
        """
        request = asked if isinstance(asked, Request) else Request.for_classes(asked, self.num_classes, gone=gone)
        forget, retain = (Subset(self.train, part.tolist()) for part in request.split(self.labels("train")))
        problem = Problem(model, request, forget, retain, self.recipe, seed, progress)
        if request.kind == "classes":
            return problem
        given = self._given().nonzero().flatten().tolist()
        return replace(problem, validation=Subset(self.validation, given))

    def without(self, classes: Sequence[int], records: Sequence[int] = ()) -> Dataset:
        """The training data without some classes, or without the `records` at these positions."""
        stay = ~of_classes(self.labels("train"), classes)
        stay[list(records)] = False
        return Subset(self.train, stay.nonzero().flatten().tolist())

    def parts(self, asked: Asked, *, most: int | None = None) -> dict[Part, Batch]:
        """All samples by third and by whether they are forgotten; of the training data `most` of each at random."""
        thirds: tuple[tuple[Third, int | None], ...] = (("train", most), ("validation", None), ("test", None))
        return {name: batch for x, n in thirds for name, batch in self.parts_of(x, asked, most=n).items()}

    def parts_of(self, third: Third, asked: Asked, *, most: int | None = None) -> dict[Part, Batch]:
        """The two parts of a third; the others are not read."""
        found = self.positions(third, asked, most=most)
        return {name: read(getattr(self, third), chosen.tolist()) for name, chosen in found.items()}

    def to_choose_by(self, asked: Asked, *, most: int | None = None) -> tuple[Batch, Batch]:
        """The samples that settings are chosen by, `most` of each: of validation, retained and forgotten ones.

        For records: validation samples, and the records.
        """
        parts = self.parts_of("validation", asked, most=most)
        if isinstance(asked, Request) and asked.kind == "records":
            return parts["retain_validation"], self.parts_of("train", asked, most=most)["forget_train"]
        return parts["retain_validation"], parts["forget_validation"]

    def positions(self, third: Third, asked: Asked, *, most: int | None = None) -> dict[Part, Tensor]:
        """Where the samples of the two parts of a third are, ascending int64.

        For records, "forgotten" samples of validation and test are those of the records' classes, and all count as
        retained; those of validation that methods are given are left out.
        """
        generator = torch.Generator().manual_seed(0)
        if isinstance(asked, Request) and asked.kind == "records":
            forgotten, retained = self._alike(third, asked)
        else:
            classes = asked.classes if isinstance(asked, Request) else asked
            forgotten = of_classes(self.labels(third), classes)
            retained = ~forgotten

        def some(mask: Tensor) -> Tensor:
            chosen = mask.nonzero().flatten()
            return chosen[torch.randperm(len(chosen), generator=generator)[:most].sort().values]

        forget, retain = _PARTS[third]
        return {forget: some(forgotten), retain: some(retained)}

    def _given(self) -> Tensor:
        """Which validation samples methods for records are given: a random half, bool (n,)."""
        size = size_of(self.validation)
        order = torch.randperm(size, generator=torch.Generator().manual_seed(0))
        return torch.zeros(size, dtype=torch.bool).index_fill(0, order[: size // 2], True)

    def _alike(self, third: Third, request: Request) -> tuple[Tensor, Tensor]:
        """For records: which samples of a third are forgotten or like those, and which are retained; bool (n,)."""
        train = self.labels("train")
        goes = torch.zeros(len(train), dtype=torch.bool).index_fill(0, torch.tensor(request.records), True)
        if third == "train":
            return goes, ~goes
        labels = self.labels(third)
        judged = torch.ones(len(labels), dtype=torch.bool)
        if third == "validation":
            judged &= ~self._given()
        return of_classes(labels, train[goes].unique().tolist()) & judged, judged


def scenario(name: str) -> Scenario:
    """The scenario of this name, or the one that a function `package.module:function` returns.

    Packages offer scenarios by an entry point of the group `unsc.scenarios`: a function that gives providers by name.
    This one offers `digits`, which needs no files, and the paper's data sets, which are read from the folder that the
    environment variable UNSC_DATA names. `fashion-mnist@paper` is trained as in the paper, `fashion-mnist` for a few
    epochs on a CPU.
    """
    if ":" in name:
        made = made_by(name)
        if not isinstance(made, Scenario):
            raise InvalidRequest(f"{name} returned a {type(made).__name__}; it must return an unsc.compare.Scenario")
        return made
    known = providers()
    plain, preset = parse_name(name)
    if plain not in known:
        raise unknown("scenario", plain, [*known, "package.module:function"])
    return known[plain](preset)


def parse_name(name: str) -> tuple[str, str | None]:
    """`svhn@paper` is the data set `svhn` and the preset `paper`; without an @ there is no preset."""
    plain, at, preset = name.partition("@")
    return plain, preset if at else None


def providers() -> dict[str, Provider]:
    """Everything that makes a scenario, by the scenario's name, of all installed packages."""
    found: dict[str, Provider] = {}
    for point in entry_points(group="unsc.scenarios"):
        try:
            found |= point.load()()
        except Exception as e:  # whatever another package's code may raise
            raise InvalidRequest(f"the scenarios {point.name} of {point.value} cannot be loaded: {e}") from e
    return found


Provider: TypeAlias = Callable[[str | None], Scenario]
"""Makes a scenario with the preset of this name, or, given None, with its usual one."""


def load_data(name: str) -> tuple[Dataset, Dataset]:
    """Training and test data: of a scenario by its name, or of a function `package.module:function`."""
    if ":" not in name:
        found = scenario(name)
        return found.train, found.test
    made = made_by(name)
    if isinstance(made, Scenario):
        return made.train, made.test
    if not isinstance(made, tuple) or len(made) != 2:
        raise InvalidRequest(f"{name} returned a {type(made).__name__}; it must return (train, test), two data sets")
    for dataset in made:
        check_map_style(dataset)
    return made
