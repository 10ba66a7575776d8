# %% [markdown]
"""
# Mislabelled records, repaired

A network was trained on handwritten digits of which one in ten had a wrong label, and learned them by heart. Later the
wrong ones are found and the right labels are known. Retraining would do. So does telling the network: `new_labels=`
moves each record to the label that it should have had, and watches what the rest of the data loses.

What to look at: test accuracy before and after, beside a network that was trained with right labels from the start.
Takes some seconds.
"""

# %%
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import unsc
from unsc.bench.datasets import load
from unsc.bench.networks import digits_cnn
from unsc.bench.train import fit

digits = load("digits")
images, right = digits.train.tensors
generator = torch.Generator().manual_seed(0)
found = torch.randperm(len(right), generator=generator)[: len(right) // 10]
wrong = right.clone()
wrong[found] = (right[found] + torch.randint(1, 10, (len(found),), generator=generator)) % 10
print(f"{len(found)} of {len(right)} labels are wrong")

# %%


def trained(labels: Tensor) -> nn.Module:
    torch.manual_seed(0)
    return fit(digits_cnn(), images, labels, epochs=20, lr=0.05, batch_size=64)


model, reference = trained(wrong), trained(right)

# %% [markdown]
"""
The data is given as it was when the network was trained, wrong labels included; `indices` are the records that were
found, and `new_labels` what they should have been called.
"""

# %%
as_trained = TensorDataset(images, wrong)
result = unsc.forget(model, as_trained, indices=found.tolist(), new_labels=right[found].tolist())
print(result.metrics.promise)

# %%


@torch.no_grad()
def accuracy(network: nn.Module, x: Tensor, y: Tensor) -> float:
    return 100 * (network.eval()(x).argmax(dim=1) == y).float().mean().item()


rows = {"with wrong labels": model, "repaired": result.model, "right from the start": reference}
print(f"{'':22s}{'test':>8s}{'records: wrong':>16s}{'right label':>13s}")
for name, network in rows.items():
    believed = accuracy(network, images[found], wrong[found]), accuracy(network, images[found], right[found])
    print(f"{name:22s}{accuracy(network, *digits.test.tensors):8.1f}{believed[0]:16.1f}{believed[1]:13.1f}")
