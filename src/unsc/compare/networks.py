"""The networks of a comparison, each trained once and kept in a file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from torch import nn
from torch.utils.data import Dataset, Subset

from unsc.compare.plan import Training
from unsc.compare.scenarios import Scenario
from unsc.cost import Cost, metered
from unsc.errors import InvalidData
from unsc.storage.files import load_tensors, save_tensors
from unsc.storage.versions import versions


@dataclass(frozen=True)
class Networks:
    """A folder of networks that were trained on a scenario's data."""

    folder: Path
    data: str
    """The scenario's name; networks of another scenario are refused."""
    scenario: Scenario

    def path(self, training: Training) -> Path:
        return self.folder / f"{training.key}.safetensors"

    def train(self, training: Training) -> None:
        """Train a network and keep it, with what it cost, unless it is there already."""
        path = self.path(training)
        if path.exists():
            return
        checkpoint, dataset = path.with_suffix(".pt"), self._dataset(training)
        with metered() as metre:
            if self.scenario.resumable is None:
                model, in_all = self.scenario.recipe(dataset, training.seed), None
            else:
                model, in_all = self.scenario.resumable(dataset, training.seed, checkpoint)
        cost = replace(in_all, peak_mib=metre().peak_mib) if in_all else metre()
        about = {"kind": "model", "data": self.data, "training": training.key, "cost": asdict(cost)}
        save_tensors(path, model.state_dict(), {**about, "trained": dict(self.scenario.about), "versions": versions()})
        checkpoint.unlink(missing_ok=True)

    def load(self, training: Training) -> tuple[nn.Module, Cost]:
        """A trained network in evaluation mode, and what it cost."""
        return self.read(self.path(training))

    def read(self, path: Path) -> tuple[nn.Module, Cost]:
        """The network in a file, which must be of this scenario and trained as it says, and what it cost."""
        tensors, metadata = load_tensors(path)
        if metadata.get("data", self.data) != self.data:
            raise InvalidData(f"{path} was trained on {metadata['data']}, not {self.data}; name another folder")
        if metadata.get("trained", self.scenario.about) != self.scenario.about:
            how = f"{metadata['trained']}, and {self.data} is now {dict(self.scenario.about)}"
            raise InvalidData(f"{path} was trained by {how}; remove it, or name another folder")
        model = self.scenario.network()
        try:
            model.load_state_dict(tensors)
        except RuntimeError as e:
            raise InvalidData(f"{path} holds another network ({e}); remove it, or name another --out") from e
        return model.eval(), Cost(**metadata["cost"])

    def _dataset(self, training: Training) -> Dataset:
        data = self.scenario
        if not training.half:
            return data.without(training.without, training.records)
        chosen = training.chosen(len(data.labels("train")))
        return Subset(data.train, chosen.nonzero().flatten().tolist())
