"""All that the experiments know about a data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unsc.bench.data.shared.source import Source
from unsc.bench.data.shared.split import Split
from unsc.bench.presets import Preset
from unsc.bench.registry import Registry
from unsc.compare.scenarios import Scenario
from unsc.errors import InvalidRequest, unknown


@dataclass(frozen=True)
class ImageData:
    """A data set of images: how it is read, where it comes from, what learns it and what is forgotten of it."""

    name: str
    read: Callable[[Path], Split]
    """Reads the files under the data folder. A data set without files ignores the folder."""
    num_classes: int
    source: Source | None = None
    """Where its files are published; None if it has none."""
    presets: Mapping[str, Preset] = field(default_factory=dict)
    """By name: `cpu`, which is the usual one, `paper`, and `long`, if there is one."""
    forget: tuple[int, ...] = ()
    """The classes to forget, in this order: the first `at_once`, or as many as an experiment asks for."""
    at_once: int = 1
    """How many classes are forgotten at once, at the least."""
    paper_step: Mapping[str, float] = field(default_factory=dict)
    """Settings of the paper's own step for this data set, by its table of details; empty if it has none there."""
    own_scenario: Callable[[], Scenario] | None = None
    """What methods are compared on, where that is not data, network and training of a preset."""

    def load(self, folder: Path | None = None) -> Split:
        """Its training and test part, from the files under `folder` if it has files."""
        if self.source is None:
            return self.read(Path())
        if folder is None:
            raise InvalidRequest(f"{self.name} is read from files: give the data folder (--folder DIR)")
        return self.read(Path(folder))

    def preset(self, name: str | None = None) -> Preset:
        """The preset of this name; by default `cpu`."""
        name = name or "cpu"
        if name not in self.presets:
            raise unknown(f"preset of {self.name}", name, self.presets)
        return self.presets[name]


DATA: Registry[ImageData] = Registry("data set", "unsc.bench.data")
"""All data sets. `DATA.add(ImageData(...))` registers one."""
