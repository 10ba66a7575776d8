"""Every supported layer as `rows @ W.T`."""

from unsc.layers.find import CONVOLUTIONS, Found, Layer, Use, View, find_layers, parameters_of
from unsc.layers.stream import Receive, check_layers, observe, windows

__all__ = [
    "CONVOLUTIONS",
    "Found",
    "Layer",
    "Receive",
    "Use",
    "View",
    "check_layers",
    "find_layers",
    "observe",
    "parameters_of",
    "windows",
]
