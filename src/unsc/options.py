"""Every setting of a run, with its default and meaning; saved with each result."""

from __future__ import annotations

import dataclasses
import difflib
from dataclasses import dataclass
from typing import Any, Literal

import torch

from unsc.errors import InvalidRequest
from unsc.steps.paper import MakeOptimizer
from unsc.steps.subspace import Energy
from unsc.targets import Targets

_IDLE = {"budgeted": ("lr", "optimizer", "energy", "merge_energy"), "paper": ("budget",)}
"""Options that the other step rule alone uses."""


@dataclass(frozen=True)
class Options:
    """Settings of `forget`. Those that are None take a default that suits the step rule and the request."""

    step: Literal["budgeted", "paper"] = "budgeted"
    """`budgeted` limits the change of retained predictions; `paper` is the paper's Eq. 12."""
    targets: Targets | None = None
    """Where forgotten samples go: `soft` (default of budgeted), `hard` (the paper's rule, its default) or `random`."""
    samples_per_class: int = 256
    """Retained samples of each class for its moments."""
    batch_size: int | None = None
    """Forgotten samples a step: by default a sixteenth of them, at least 16 and at most 128."""
    max_passes: int | None = None
    """Over the forgotten samples: by default 2, or as many as make 64 steps; 25 for the paper's step."""
    max_kl: float | None = None
    """Retained KL in nats at which a run is stopped and its best state restored: 0.1, or 1 for the paper's step."""
    stop_mass: float = 0.01
    """A class is forgotten when its held-out samples give it no more than this mean probability."""
    held_out: float = 0.1
    """Share of a forgotten class's samples that only serve to tell when to stop."""
    budget: float = 1e-4
    """Budgeted step: nats of retained prediction change that each step may predict."""
    energy: Energy = 0.97
    """Paper's step: share of a class's energy that its basis holds."""
    merge_energy: Energy = 0.99
    """Paper's step: share of the merged bases' energy that the retained basis holds."""
    lr: float = 0.04
    """Paper's step: learning rate of plain SGD."""
    optimizer: MakeOptimizer | None = None
    """Paper's step: makes another optimizer from the parameters; `lr` is then not used."""
    parameters: tuple[str, ...] | None = None
    """Names of the parameters that may be edited; by default all that can be confined."""
    label_key: str | None = None
    """Where dict samples hold their label; by default `labels`, `label`, `y` or `target`."""
    chunk_bytes: int = 256 << 20
    """Memory for unfolded patches."""
    seed: int = 0

    def __post_init__(self) -> None:
        def check(name: str, allowed: str, ok: bool) -> None:
            if not ok:
                raise InvalidRequest(f"{name}={getattr(self, name)!r}; allowed is {allowed}")

        check("step", "'budgeted' or 'paper'", self.step in ("budgeted", "paper"))
        check("targets", "'soft', 'hard' or 'random'", self.targets in (None, "soft", "hard", "random"))
        check("samples_per_class", "a whole number of at least 2", _whole(self.samples_per_class, 2))
        check("held_out", "a share from 0 to 0.5", _number(self.held_out) and 0 <= self.held_out <= 0.5)
        check("stop_mass", "a probability from 0 to 1", _number(self.stop_mass) and 0 <= self.stop_mass <= 1)
        for name in ("batch_size", "max_passes"):
            check(name, "a whole number of at least 1", getattr(self, name) is None or _whole(getattr(self, name), 1))
        check("chunk_bytes", "a whole number of at least 1", _whole(self.chunk_bytes, 1))
        check("max_kl", "a number above 0", self.max_kl is None or (_number(self.max_kl) and self.max_kl > 0))
        for name in ("budget", "lr"):
            check(name, "a number above 0", _number(getattr(self, name)) and getattr(self, name) > 0)
        check("seed", "a whole number of at least 0", _whole(self.seed, 0))

    @classmethod
    def from_keywords(cls, keywords: dict[str, Any], *, without: tuple[str, ...] = ()) -> Options:
        """Options by name; one that does not exist, or that has no effect here, is an error."""
        known = [f.name for f in dataclasses.fields(cls)]
        step = keywords.get("step", cls.step)
        idle = _IDLE.get(step, ())
        for name in keywords:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"options are {', '.join(known)}"
                raise InvalidRequest(f"there is no option {name!r}; {hint}")
            if name in idle or name in without:
                why = f"with step={step!r}" if name in idle else "here: the guide that is passed in decides it"
                raise InvalidRequest(f"the option {name}={keywords[name]!r} has no effect {why}; leave it out")
        return cls(**keywords)

    def resolved(self, forgotten: int) -> Options:
        """All defaults filled in, for so many forgotten samples."""
        paper = self.step == "paper"
        batch = self.batch_size or max(16, min(128, forgotten // 16))
        passes = self.max_passes or (25 if paper else max(2, -(-64 // -(-forgotten // batch))))
        return dataclasses.replace(
            self,
            targets=self.targets or ("hard" if paper else "soft"),
            batch_size=batch,
            max_passes=passes,
            max_kl=self.max_kl or (1.0 if paper else 0.1),
        )

    def make_optimizer(self) -> MakeOptimizer:
        return self.optimizer or (lambda parameters: torch.optim.SGD(parameters, lr=self.lr))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, to be saved as JSON."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return values | {"optimizer": None if self.optimizer is None else repr(self.optimizer)}


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
