# %% [markdown]
"""
# A network by somebody else

A ResNet-20 for CIFAR-10 that other people trained and published (akamaster/pytorch_resnet_cifar10, BSD 2-clause). All
that is known of it is its weights. One class is forgotten, with no option set.

It needs two things of yours, and says so if they are not there:

- `UNSC_DATA`: a folder with `cifar-10-batches-py/`, as torchvision lays it out (`unsc bench fetch --data cifar-10`);
- `UNSC_RESNET20`: the file `resnet20-12fca82f.th` of that project.

What to look at: retained accuracy does not fall, and the cats go where a cat would go. About a minute.
"""

# %%
import os
from pathlib import Path

import torch

import unsc
from unsc.bench.datasets import load
from unsc.loading.weights import make_network

CAT = 3
data, checkpoint = os.environ.get("UNSC_DATA"), os.environ.get("UNSC_RESNET20")

# %%
if data and checkpoint:
    split = load("cifar-10", Path(data))
    model = make_network("unsc.bench.networks.resnet:ResNet20", Path(checkpoint)).eval()
    result = unsc.forget(model, split.train, classes=[CAT])
    print(result.metrics.promise)
    print(f"{result.metrics.seconds:.0f} seconds, {result.metrics.steps} steps")
    for name, network in (("original", model), ("unlearned", result.model)):
        scores = unsc.evaluate(network, split.test, classes=[CAT])
        print(f"{name:10s} retained {scores.retain_test_acc:6.2f} %   forgotten {scores.forget_test_acc:6.2f} %")
    x, y = split.test.tensors
    with torch.no_grad():
        went = result.model(x[y == CAT]).argmax(dim=1)
    print("cats are now:", {split.classes[k]: int((went == k).sum()) for k in went.unique().tolist()})
else:
    print("Skipped: set UNSC_DATA and UNSC_RESNET20 to run it.")
