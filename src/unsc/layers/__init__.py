"""Every supported layer as `rows @ W.T`: how layers are found, streamed and checked, and one file for each kind."""

import importlib
import pkgutil

from unsc.layers.call import Call, hooked
from unsc.layers.check import check_layers
from unsc.layers.find import Found, find_layers
from unsc.layers.kind import Factored, Factors, Kind, Place, bias_of, own_parameters, weight_and_bias
from unsc.layers.lags import moment_of
from unsc.layers.layer import Layer, Use, View, parameters_of
from unsc.layers.registry import kind_of, kinds, kinds_restored, names_of_kinds, needed_kind, register
from unsc.layers.rows import Correlations, Draw, Rows, Strided, flat
from unsc.layers.stream import DrawRows, Receive, observe
from unsc.layers.weights import Weights

__all__ = [
    "Call",
    "Correlations",
    "Draw",
    "DrawRows",
    "Factored",
    "Factors",
    "Found",
    "Kind",
    "Layer",
    "Place",
    "Receive",
    "Rows",
    "Strided",
    "Use",
    "View",
    "Weights",
    "bias_of",
    "check_layers",
    "find_layers",
    "flat",
    "hooked",
    "kind_of",
    "kinds",
    "kinds_restored",
    "moment_of",
    "names_of_kinds",
    "needed_kind",
    "observe",
    "own_parameters",
    "parameters_of",
    "register",
    "weight_and_bias",
]

# Each file of this folder may register a kind: a new one is known by being here.
for _file in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_file.name}")
