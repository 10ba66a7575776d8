"""What `forget` gives back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from unsc.options import Options
from unsc.request import Request
from unsc.storage.files import new_folder, save_tensors, write_json
from unsc.storage.versions import versions


@dataclass(frozen=True, repr=False)
class Forgotten:
    """A model that has forgotten, and what was measured on the way."""

    model: nn.Module
    """A new module, in the mode and precision of the one that was passed in."""
    metrics: dict[str, Any]
    """`forget_acc` in percent on held-out forgotten samples (on the records themselves for records), `retained_kl`
    and `predicted_kl` in nats, `drift` by layer and `drift_max`, `passes`, `steps`, `seconds`, `stopped`, ..."""
    frozen: dict[str, str]
    """Names of the parameters that were not edited, with the reason."""
    options: Options
    request: Request
    guide: Any
    """The null space or retained metric that steps were confined to; it can be saved and used again."""

    def __repr__(self) -> str:
        m = self.metrics
        return f"<Forgotten {m['request']}: {m['note']} Retained KL {m['retained_kl']:.4f} nats, {m['passes']} passes.>"

    def save(self, folder: str | Path) -> Path:
        """Write `model.safetensors`, `metrics.json` and `config.json` into a new folder, all or nothing."""
        folder = Path(folder)
        config = {
            "options": self.options.to_dict(),
            "classes": self.request.classes or None,
            "indices": self.request.records,
            "versions": versions(),
        }
        with new_folder(folder) as part:
            save_tensors(part / "model.safetensors", self.model.state_dict(), {"kind": "model"} | config)
            write_json(part / "metrics.json", self.metrics | {"frozen": self.frozen})
            write_json(part / "config.json", config)
        return folder


def promise(request: Request, step: str) -> str:
    """What the result of a request can be said to do, in words for the person who asked."""
    if request.kind == "classes":
        return (
            "Whole classes were forgotten: their samples are classified as the retained classes that the original "
            "network found most similar, and predictions on retained data stay within the measured KL. This does "
            "not promise weights as if the classes had never been seen."
        )
    kept = (
        "the other classes are protected by their null space; the rest of a record's own class is not"
        if step == "paper"
        else "predictions on the retained data, its own class included, stay within the measured KL"
    )
    return (
        f"Records of classes that stay were moved away from their own labels as far as possible; {kept}. A network "
        "trained without these records may still classify most of them correctly, so this can forget more than "
        "retraining would."
    )
