"""What a receipt says: the request, both weights, what was measured and judged, by which code, what stays open."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from unsc.release.candidate import Made
from unsc.release.canonical import canonical, plain, sha256
from unsc.release.manifest import Manifest, Resolved
from unsc.release.policy import Policy, Verdict, figures_as_dict
from unsc.release.receipt import digest_of, hashes_of
from unsc.storage.versions import versions

NOT_PROVEN = (
    "It does not prove that the weights are those of a network that was never trained on what was forgotten.",
    "It does not prove that no attack finds traces of it: only the attacks listed under metrics were tried, if any.",
    "It does not prove that the figures are right: they are as good as the signer's word, machine and data.",
    "It says nothing of copies that are not the same byte for byte, of samples that no id of the request names, of "
    "backups, logs and caches, nor of models that were derived from earlier weights.",
    "It says nothing of earlier weights, which still know what was forgotten; whoever holds them must delete them.",
    "It is no legal opinion.",
)
_PREDICTED = (
    "Some figures are predictions: no retained sample was at hand to measure on. They are marked so, and were held "
    "against a part of the policy's limits; what retained predictions really lost is not known."
)
_ROLLED_BACK = (
    "These weights were in force before a release that was taken back. They know what that release had forgotten."
)


def of_release(
    made: Made,
    resolved: Resolved,
    manifest: Manifest,
    policy: Policy,
    verdicts: Sequence[Verdict],
    model: Path,
    salt: str,
) -> dict[str, Any]:
    """The content of a receipt for weights in the folder `model`, but for its place in the chain."""
    predicted = any(figure.source == "predicted" for figure in made.figures.values())
    return _complete(
        action="release",
        request={
            "kind": "classes" if resolved.classes else "records",
            "classes": [manifest.class_names[k] for k in resolved.classes],
            "samples": len(resolved.ids),
            "copies_left": len(manifest.copies(resolved.ids)),
            "forgotten": digest_of(resolved.ids, salt),
        },
        parent={"sha256": manifest.weights},
        child={"sha256": made.weights, "files": hashes_of(model)},
        policy=policy.to_dict(),
        verdicts=[asdict(verdict) for verdict in verdicts],
        metrics=figures_as_dict(made.figures),
        drift=dict(made.drift),
        config=dict(made.config),
        says=made.promise,
        does_not_prove=[*NOT_PROVEN, *((_PREDICTED,) if predicted else ())],
    )


def of_rollback(request: Mapping[str, Any], parent: str, child: str, policy: Policy, model: Path) -> dict[str, Any]:
    """The content of a receipt for a release that is taken back."""
    return _complete(
        action="rollback",
        request=dict(request),
        parent={"sha256": parent},
        child={"sha256": child, "files": hashes_of(model)},
        policy=policy.to_dict(),
        verdicts=[],
        metrics={},
        drift={},
        config={},
        says="A release was taken back: the influence of the data that it had forgotten is back.",
        does_not_prove=[_ROLLED_BACK, *NOT_PROVEN],
    )


def _complete(**content: Any) -> dict[str, Any]:
    content["config"] = {"sha256": sha256(canonical(plain(content["config"]))), "values": content["config"]}
    content["policy"] = {"sha256": sha256(canonical(plain(content["policy"]))), "values": content["policy"]}
    made = datetime.now(timezone.utc).isoformat(timespec="seconds")
    code = {"versions": versions(), "sha256": code_hash()}
    return plain({**content, "made": made, "code": code, "environment": _environment()})


@cache
def code_hash() -> str:
    """SHA-256 of this package's source: of each file's name and hash."""
    return sha256(
        canonical({name: h for name, h in hashes_of(Path(__file__).parents[1]).items() if name.endswith(".py")})
    )


def _environment() -> dict[str, Any]:
    packages = {name: metadata.version(name) for name in ("numpy", "safetensors", "torch")}
    return {
        "packages": packages,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": os.cpu_count(),
    }
