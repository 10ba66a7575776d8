"""A method of your own: one function with one decorator, in one file.

`undecided` trains the network on forgotten samples to find all classes that they may still be given equally likely:

- `@method` registers the function under its own name. `needs` says which parts of the problem it cannot do without,
  `search` which settings are worth tuning, and where. A method that can forget whole classes alone says so by
  `kinds=("classes",)`. `unsc.methods.apply` refuses a problem that does not fit, before the function is called.
- The function takes a `Problem` and settings by name, each with a default. It works on `problem.copy()`, never on
  `problem.model`, and returns a new model. All chance comes from `problem.seed`.
- The docstring has the same five parts as those of this package: source, mechanism, data, published settings,
  departures. `unsc methods` shows it.
- A method that diverges may say so: a loss that is not finite makes `descend` raise `Diverged`, and that is its result.

A method of this package is a file like this one in `src/unsc/methods/`; nothing else needs to know of it. A package of
yours names the function's module as an entry point:

    [project.entry-points."unsc.methods"]
    undecided = "my_package.method"

Then `unsc compare --methods undecided` compares it with the others.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch
from unsc.logits import logits_of
from unsc.methods import Problem, Range, method
from unsc.methods.shared.training import descend, number_of_batches, passes


@method(needs=("forget",), search={"lr": Range(1e-4, 1e-1, log=True), "epochs": Range(1, 10)})
def undecided(problem: Problem, *, lr: float = 1e-3, epochs: int = 5, batch_size: int = 64) -> nn.Module:
    """Source: none; an example for contributors.

    Mechanism: SGD on the cross entropy between the predictions for forgotten samples and the uniform distribution over
    the classes that they may still be given.

    Data: forgotten.

    Published: no settings.

    Departures: none.
    """
    model = problem.copy()

    def loss(batch: Batch) -> Tensor:
        allowed = (~problem.removed(batch.labels)).float()
        return F.cross_entropy(logits_of(model, batch), allowed / allowed.sum(dim=1, keepdim=True))

    return descend(
        model,
        passes(problem.forget, size=batch_size, epochs=epochs, seed=problem.seed),
        loss,
        lr=lr,
        total=number_of_batches(problem.forget, size=batch_size, epochs=epochs),
        progress=problem.progress,
    )
