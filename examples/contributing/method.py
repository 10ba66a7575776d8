"""A method of your own: one function with one decorator, in one file.

`shrink` multiplies the last layer's rows of the forgotten classes by a factor, which makes these classes less likely.
It is a bad method, and a complete one:

- `@method` registers the function under its own name. `needs` says which parts of the problem it cannot do without
  (here "forget", to find the head by), `kinds` which requests it can carry out, and `search` which settings are worth
  tuning, and where. `unsc.methods.apply` refuses a problem that does not fit, before the function is called.
- The function takes a `Problem` and settings by name, each with a default. It works on `problem.copy()`, never on
  `problem.model`, and returns a new model.
- The docstring has the same five parts as those of this package: source, mechanism, data, published settings,
  departures. `unsc methods` and the documentation show it.

A method of this package is a file like this one in `src/unsc/methods/`; nothing else needs to know of it. A package of
yours names the function as an entry point:

    [project.entry-points."unsc.methods"]
    shrink = "my_package.method:shrink"

Then `unsc compare --methods shrink` compares it with the others.
"""

from __future__ import annotations

import torch
from torch import nn

from unsc.datasets import read
from unsc.methods import Problem, Range, method
from unsc.methods.shared.head import find_head


@method(needs=("forget",), kinds=("classes",), search={"factor": Range(0.0, 1.0)})
def shrink(problem: Problem, *, factor: float = 0.1) -> nn.Module:
    """Source: none; an example for contributors.

    Mechanism: the last layer's weights and biases of the forgotten classes are multiplied by `factor`.

    Data: one forgotten sample, to find the last layer by.

    Published: no settings.

    Departures: none.
    """
    model = problem.copy()
    head = model.get_submodule(find_head(model, read(problem.forget, [0])))
    with torch.no_grad():
        for parameter in head.parameters():
            parameter[~problem.kept] *= factor
    return model
