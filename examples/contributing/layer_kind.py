"""A new kind of layer, in one file: PyTorch's `nn.Bilinear`, whose output unit k is `x1 @ W[k] @ x2 + b[k]`.

The package can edit a weight if the layer computes `rows @ W.T`. A bilinear map does: its weight (outputs, in1, in2)
flattens to a matrix (outputs, in1 * in2), and the row of a sample is the flattened outer product of its two inputs. To
teach this to the package, say four things in a subclass of `Kind`:

1. `modules`: which classes of modules are of this kind;
2. `layers`: which matrices such a module brings. `place.view` names a parameter, or is None if it cannot be edited;
   `place.layer` describes the matrix. A bias becomes one more column, and is taken care of;
3. `rows`: what the matrix is multiplied with, in one call of the module. `flat` makes rows of (..., inputs);
   return a `Strided` view, or a `Rows` of your own, where all rows at once would not fit in memory;
4. `channels`: where the channels are in what the module returns, counted from the end.

`Kind` has more to say for modules that keep outputs to themselves or describe submodules (see `attention.py`), and
`Factored` is for kinds whose gradients of single samples are cheap (see `linear.py`).

That is all. The layer is now found, its rows are streamed, and before anything is edited the package checks on real
data that `rows @ W.T` is what the module returns. If it is not, as in a subclass that does something else with its
weight, the layer is frozen and the user is told why. In `src/unsc/layers/` the file is found by itself; anywhere else,
import it before you call `unsc`.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from unsc.layers import Call, Kind, Layer, Place, Rows, flat, register


@register
class Bilinear(Kind[nn.Bilinear]):
    name = "Bilinear"

    def modules(self) -> tuple[type[nn.Bilinear], ...]:
        return (nn.Bilinear,)

    def layers(self, place: Place[nn.Bilinear]) -> Iterator[Layer | None]:
        module = place.module
        yield place.layer(
            place.view("weight"),
            place.view("bias"),
            outputs=module.out_features,
            inputs=module.in1_features * module.in2_features,
        )

    def rows(self, call: Call[nn.Bilinear], role: str) -> Rows:
        first, second = call.argument(0, "input1"), call.argument(1, "input2")
        return flat(torch.einsum("...i,...j->...ij", first, second).flatten(-2))

    def channels(self, module: nn.Bilinear) -> int:
        return -1
