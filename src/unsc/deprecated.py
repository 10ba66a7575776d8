"""Names of 0.2.0 that have moved: they work for one more release, with a warning that gives the new name.

`GONE` and `CHANGED` are all that there is to extend. Both say for an old module which of its names are where now;
`old=new` is a name that has changed as well.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from types import ModuleType

_REMOVED_IN = "0.4.0"

GONE: Mapping[str, Mapping[str, str]] = {
    "unsc.audit": {"unsc": "Audit audit"},
    "unsc.bench.cli": {"unsc.cli.bench": "app"},
    "unsc.bench.data.cifar": {
        "unsc.bench.data.cifar_10": "cifar10=cifar_10",
        "unsc.bench.data.cifar_100": "cifar100=cifar_100",
    },
    "unsc.bench.data.pixels": {"unsc.bench.data.shared.pixels": "checked_labels missing normalised read_bytes unit"},
    "unsc.bench.data.plain_pickle": {"unsc.bench.data.shared.plain_pickle": "plain_pickle"},
    "unsc.bench.data.split": {"unsc.bench.data.shared.split": "Split"},
    "unsc.bench.figures.make": {"unsc.bench.figures.shared.make": "draw_all measure_missing"},
    "unsc.bench.figures.subject": {"unsc.bench.figures.shared.subject": "Subject"},
    "unsc.bench.record": {"unsc.bench.results": "Record=Result hardware keep records=read_results said_of_attacks"},
    "unsc.bench.sources": {"unsc.bench.data.shared.source": "Published Source"},
    "unsc.bench.training.samples": {"unsc.bench.training.images": "Samples=Images samples_of=images_of"},
    "unsc.bring": {
        "unsc.compare.scenarios": "bring_data=load_data",
        "unsc.loading.weights": "bring_model=make_network made_by read_weights",
    },
    "unsc.budget": {"unsc.steps.budgeted": "BudgetedStep forget_gradients"},
    "unsc.compare.cells": {"unsc.compare.comparison": "ORIGINAL RETRAIN Run=Comparison read_result"},
    "unsc.compare.scenario": {"unsc.compare": "Scenario scenario", "unsc.compare.scenarios": "Third"},
    "unsc.compare.table": {"unsc.compare.results": "Comparison=Results Summary write"},
    "unsc.confine": {"unsc.steps.paper": "ConfinedStep MakeOptimizer confined_step"},
    "unsc.demo": {"unsc.bench.demo": "Row demo", "unsc.cli.demo": "show"},
    "unsc.evaluation.alignment": {"unsc.evaluation.shared.alignment": "linear_cka"},
    "unsc.evaluation.attacks": {
        "unsc.evaluation.shared.attacks": "enough entropy into_range log_odds log_probability take_for_outsiders",
    },
    "unsc.evaluation.bootstrap": {"unsc.evaluation.shared.bootstrap": "intervals multiplicities"},
    "unsc.evaluation.case": {"unsc.evaluation.shared.case": "Case Later Part References Shadows"},
    "unsc.evaluation.contest": {"unsc.evaluation.shared.contest": "Contest Side contest"},
    "unsc.evaluation.features": {"unsc.features": "layer_inputs pooled seen_by_layers=inputs_of_layers"},
    "unsc.evaluation.fooled": {"unsc.evaluation.shared.fooled": "ALL fooled_by in_words shortfall"},
    "unsc.evaluation.lira": {"unsc.evaluation.shared.lira": "ENOUGH Spread attack score spread"},
    "unsc.evaluation.measures": {
        "unsc.evaluation.shared.metrics": "Measured Metric Need Value measure measures metrics",
    },
    "unsc.evaluation.probes": {"unsc.evaluation.shared.probes": "knn_probe linear_probe stratified"},
    "unsc.evaluation.rmia": {"unsc.evaluation.shared.rmia": "GAMMA log_ratio same_mix score slope"},
    "unsc.evaluation.roc": {"unsc.evaluation.shared.roc": "Roc roc"},
    "unsc.figures": {"unsc.bench.drawing": "class_accuracy"},
    "unsc.files": {
        "unsc.storage.files": "load_tensors new_folder replaced_folder save_tensors write_json write_whole",
    },
    "unsc.forget": {"unsc": "forget"},
    "unsc.imports": {"unsc.loading.code": "import_callable"},
    "unsc.methods.apply": {"unsc.methods": "Applied apply"},
    "unsc.methods.head": {"unsc.features": "features=head_inputs find_head"},
    "unsc.methods.importance": {
        "unsc.methods.shared.importance": "Importance batch_importance empirical_fisher squared_gradients true_fisher",
    },
    "unsc.methods.per_sample": {
        "unsc.layers": "Factors",
        "unsc.methods.shared.per_sample": "Loss sum_of_squares trained",
    },
    "unsc.methods.problem": {"unsc.methods": "Problem Recipe"},
    "unsc.methods.registry": {
        "unsc.methods.shared.registry": "Kind Need Run=MethodFunction",
        "unsc.methods": "Method find method methods split_names",
    },
    "unsc.methods.search": {"unsc.methods": "Choice Range", "unsc.methods.shared.search": "Space"},
    "unsc.methods.training": {"unsc.methods.shared.training": "bounded descend endless number_of_batches passes"},
    "unsc.metric": {
        "unsc": "RetainedMetric=RetainedCurvature",
        "unsc.steps.curvature": "LayerMetric=LayerCurvature assemble choose_damping",
        "unsc.steps.gradients": "gradients_of",
        "unsc.steps.sensitivity": "sensitivities",
    },
    "unsc.pseudo_labels": {"unsc.targets": "Targets", "unsc": "pseudo_labels"},
    "unsc.rows": {"unsc.layers": "Receive check_layers observe", "unsc.layers.convolution": "windows"},
    "unsc.samples": {
        "unsc.batches": "Batch as_batch describe join pieces",
        "unsc.logits": "all_logits check_logits logits_of",
        "unsc.datasets": "batches=read_batches by_class check_map_style read read_labels",
    },
    "unsc.subspace": {"unsc.steps.subspace": "ClassBases Energy leading", "unsc": "NullSpace class_bases null_space"},
    "unsc.tune": {"unsc.compare.tuning": "Attempt=Try Tuned tune", "unsc.logits": "accuracy"},
    "unsc.unlearn": {"unsc.steps": "Guide", "unsc.task": "Samples Task", "unsc.run": "carry_out", "unsc": "unlearn"},
    "unsc.versions": {"unsc.storage.versions": "commit versions"},
}
"""Modules that no longer exist."""

CHANGED: Mapping[str, Mapping[str, str]] = {
    "unsc": {"unsc": "RetainedMetric=RetainedCurvature"},
    "unsc.bench.training.run": {"unsc.bench.training.run": "Run=TrainingRun"},
    "unsc.cli": {"unsc.cli.commands": "app"},
    "unsc.evaluation.rebound": {
        "unsc.evaluation.rebound": "rebound_after_later_request=rebound_after_later_requests",
    },
    "unsc.evaluation.relearning": {"unsc.features": "last_linear=find_last_linear"},
    "unsc.evaluation.utility": {
        "unsc.evaluation.shared.shares": "accuracy=accuracy_on correct share share_by_class wilson",
    },
    "unsc.methods.boundary_expand": {"unsc.features": "find_head"},
    "unsc.moments": {"unsc": "collect_moments"},
    "unsc.report": {
        "unsc.cli.tables": "about_method about_metrics audit_table methods_table skipped_lines tuned_table",
    },
    "unsc.watch": {"unsc.drift": "drift"},
}
"""Modules that have lost names."""


def look_up(module: str, name: str) -> object:
    """What `name` of the old `module` is now, with a warning; an AttributeError if it was not there.

    Nothing is imported for a name that was not there: whoever goes through `sys.modules`, as pickle does, asks for any.
    """
    gone = sys.modules.get(f"{module}.{name}")
    if isinstance(gone, _Gone):
        return gone  # its names warn by themselves
    new = _NEW.get((module, name))
    if new is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    found = getattr(import_module(new[0]), new[1])
    warnings.warn(
        f"{module}.{name} is deprecated and will be removed in {_REMOVED_IN}; use {'.'.join(new)}",
        DeprecationWarning,
        stacklevel=3,  # past the `__getattr__` of the module
    )
    return found


def _new_names() -> dict[tuple[str, str], tuple[str, str]]:
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for table in (GONE, CHANGED):
        for old_module, places in table.items():
            for new_module, names in places.items():
                for entry in names.split():
                    old, _, new = entry.partition("=")
                    found[old_module, old] = new_module, new or old
    return found


_NEW = _new_names()
"""The new module and name of every old module and name."""


class _Gone(ModuleType):
    """Stands for a module that no longer exists."""

    def __getattr__(self, name: str) -> object:
        return look_up(self.__name__, name)


class _WithOldNames(SourceFileLoader):
    """Loads a module that has lost names, and lets it look them up."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        _add_old_names(module)


class _Finder(MetaPathFinder):
    """Finds the modules that have lost names."""

    def __init__(self, modules: frozenset[str]) -> None:
        self.modules = modules

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.modules:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        if found is None or found.origin is None or type(found.loader) is not SourceFileLoader:
            return found  # without its old names: in a zip file, say
        return spec_from_file_location(
            fullname,
            found.origin,
            loader=_WithOldNames(fullname, found.origin),
            submodule_search_locations=found.submodule_search_locations,
        )


def _add_old_names(module: ModuleType) -> None:
    def look_up_here(name: str) -> object:
        return look_up(module.__name__, name)

    own: dict[str, Callable[[str], object]] = vars(module)
    own.setdefault("__getattr__", look_up_here)


def install() -> None:
    """Make the old names importable. Nothing is imported before it is asked for.

    Modules that are gone are put where the import system looks first. So they never become attributes of their
    packages, where they would hide functions such as `unsc.forget`.
    """
    for name in GONE:
        sys.modules.setdefault(name, _Gone(name, "Moved; its names warn and say where to."))
    packages = {name.rpartition(".")[0] for name in GONE}
    changed = frozenset({*CHANGED, *packages} - GONE.keys())
    sys.meta_path.insert(0, _Finder(changed))
    for name in changed & sys.modules.keys():
        _add_old_names(sys.modules[name])
