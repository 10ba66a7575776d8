"""What a store keeps of the training data: sums over samples, from which a deleted sample's share is taken out.

For each layer the moments of drawn rows of two sets of samples (to fit, and to check), and the squared gradients of
predictions: all that the budgeted step needs to know of retained data. Sums are of the network that the store was
prepared with. Later networks differ from it by what was released since, and so do a sample's rows: by the drift of
retained rows, which is what the releases were gated by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from unsc.errors import InvalidData, listing
from unsc.layers import Layer
from unsc.moments import Moment
from unsc.release.plan import Plan
from unsc.release.shares import Sums
from unsc.release.strict import Fields, is_finite
from unsc.steps.curvature import RetainedCurvature, assemble
from unsc.steps.factors import Matrix
from unsc.steps.together import Together
from unsc.storage.files import load_tensors, save_tensors

_KIND, _VERSION = "unsc statistics", 1
_NAMES = ("plan", "batch_size", "temperature", "fisher", "samples")
_FIT, _CHECK, _EXCESS, _CORRELATIONS = "fit/", "check/", "together/excess", "together/correlations"


@dataclass(frozen=True)
class Statistics:
    """Sums over the samples that are left."""

    plan: Plan
    batch_size: int
    """In which samples were taken: shares are computed in the same way (`shares.Sharing`)."""
    temperature: float
    """What predictions were softened by for their gradients."""
    fit: dict[str, Tensor]
    """By layer, the moment of drawn rows of samples to fit, float32 (groups, columns, columns)."""
    check: dict[str, Tensor]
    """The same of samples to check."""
    fisher: dict[str, float]
    """By layer, squared gradients of predictions, summed over samples."""
    samples: dict[str, int]
    """How many samples each of these is a sum over: `fit`, `check`, `fisher`."""
    together: Together
    """How the layers of a step add up, as measured when the store was prepared."""

    @classmethod
    def of(cls, sums: Sums, plan: Plan, batch_size: int, temperature: float, together: Together) -> Statistics:
        fit, check = ({name: m.dense().float() for name, m in part.items()} for part in (sums.fit, sums.check))
        return cls(plan, batch_size, temperature, fit, check, sums.fisher, sums.samples, together)

    def without(self, share: Sums) -> Statistics:
        """What is left when the `share` of deleted samples is taken out."""
        left = {name: n - share.samples[name] for name, n in self.samples.items()}
        if min(left.values()) < 1:
            raise InvalidData(
                f"the store's statistics would be of {left} samples; too few stay to know what a change costs. "
                "Prepare a new store from the data that stays"
            )
        fit = {name: (total.double() - share.fit[name].dense()).float() for name, total in self.fit.items()}
        check = {name: (total.double() - share.check[name].dense()).float() for name, total in self.check.items()}
        # The mean cannot be below 0; it would be if a deleted sample's gradient has grown since.
        fisher = {
            name: max(total - share.fisher[name], 1e-3 * total * left["fisher"] / self.samples["fisher"])
            for name, total in self.fisher.items()
        }
        return replace(self, fit=fit, check=check, fisher=fisher, samples=left)

    def curvature(self, layers: Sequence[Layer], gradients: Mapping[str, Matrix]) -> RetainedCurvature:
        """The guide of the budgeted step, for steps along `gradients` (by layer) of the forget loss."""
        self.check_layers(layers)
        fit, check = self.moments(layers)
        traces = {x.name: fit[x.name].trace().sum().item() / self.samples["fit"] for x in layers}
        b = {
            x.name: max(self.fisher[x.name] / self.samples["fisher"], 1e-12) / max(x.outputs * traces[x.name], 1e-12)
            for x in layers
        }
        return assemble(layers, fit, check, (self.samples["fit"], self.samples["check"]), b, gradients)

    def moments(self, layers: Sequence[Layer]) -> tuple[dict[str, Moment], dict[str, Moment]]:
        """Those to fit and to check, by layer."""
        fit = {x.name: Moment.from_dense(self.fit[x.name], self.samples["fit"]) for x in layers}
        return fit, {x.name: Moment.from_dense(self.check[x.name], self.samples["check"]) for x in layers}

    def check_layers(self, layers: Sequence[Layer]) -> None:
        """Refuse a network whose layers are not those that the statistics are of."""
        shapes = {x.name: (x.groups, x.columns, x.columns) for x in layers}
        strange = sorted(name for name, shape in shapes.items() if self.fit.get(name, torch.empty(0)).shape != shape)
        strange += sorted(self.fit.keys() - shapes.keys())
        if strange:
            raise InvalidData(
                f"the layers {listing(strange)} are not those that the store has statistics of; prepare one anew"
            )

    def save(self, path: Path) -> None:
        """Write a safetensors file that `Statistics.load` reads."""
        tensors = {f"{_FIT}{name}": t for name, t in self.fit.items()}
        tensors |= {f"{_CHECK}{name}": t for name, t in self.check.items()}
        tensors |= {_EXCESS: self.together.excess, _CORRELATIONS: self.together.correlations}
        numbers = {name: getattr(self, name) for name in _NAMES if name != "plan"}
        save_tensors(path, tensors, {"kind": _KIND, "version": _VERSION, "plan": asdict(self.plan)} | numbers)

    @classmethod
    def load(cls, path: Path) -> Statistics:
        tensors, metadata = load_tensors(path)
        found = Fields.of(metadata, str(path), kind=_KIND, version=_VERSION, names=_NAMES)
        fisher = found.mapping("fisher", "finite numbers", is_finite)
        expected = {f"{part}{name}" for part in (_FIT, _CHECK) for name in fisher} | {_EXCESS, _CORRELATIONS}
        if expected != tensors.keys():
            raise InvalidData(f"{path} does not hold the moments of {listing(fisher)}; it is damaged")
        if wrong := [name for name, t in tensors.items() if not _is_moment(name, t)]:
            raise InvalidData(f"{listing(wrong)} in {path} has the wrong type or shape, or is not finite")
        return cls(
            plan=_plan(found),
            batch_size=found.whole("batch_size", 1),
            temperature=found.number("temperature"),
            fit={name: tensors[f"{_FIT}{name}"] for name in fisher},
            check={name: tensors[f"{_CHECK}{name}"] for name in fisher},
            fisher=fisher,
            samples=_samples(found),
            together=Together(tensors[_EXCESS], tensors[_CORRELATIONS]).over(len(fisher)),
        )


def _is_moment(name: str, tensor: Tensor) -> bool:
    if not (tensor.is_floating_point() and torch.isfinite(tensor).all()):
        return False
    if name == _EXCESS:
        return tensor.dim() == 1
    square = tensor.dim() >= 2 and tensor.shape[-1] == tensor.shape[-2]
    return square and tensor.dim() == (2 if name == _CORRELATIONS else 3)


def _samples(found: Fields) -> dict[str, int]:
    counts = found.mapping("samples", "whole numbers", lambda n: isinstance(n, int) and n > 0)
    if counts.keys() != {"fit", "check", "fisher"}:
        raise InvalidData(f"samples in {found.where} are {listing(counts)}; they must be fit, check and fisher")
    return counts


def _plan(found: Fields) -> Plan:
    names = ("salt", "fit", "check", "sensitivity", "samples", "rows_per_column")
    content = {**found.mapping("plan", "those of a plan", lambda value: True), "kind": _KIND, "version": _VERSION}
    plan = Fields.of(content, f"plan in {found.where}", kind=_KIND, version=_VERSION, names=names)

    def shares(value: object) -> bool:
        return isinstance(value, list) and all(is_finite(part) and 0 <= part <= 1 for part in value)

    fit, check = (tuple(plan.checked(name, "shares from 0 to 1", shares)) for name in ("fit", "check"))
    samples = plan.wholes("samples")
    if len(fit) != len(check) or len(samples) != 2:
        raise InvalidData(f"the plan in {found.where} is not of one number of classes; it is damaged")
    return Plan(
        plan.text("salt"),
        fit,
        check,
        plan.number("sensitivity"),
        (samples[0], samples[1]),
        plan.whole("rows_per_column", 1),
    )
