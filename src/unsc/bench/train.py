"""Train a classifier: SGD with a one-cycle schedule, the same for every model that is compared."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.progress import Progress, quiet


def fit(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    epochs: int,
    lr: float = 0.1,
    batch_size: int = 128,
    weight_decay: float = 5e-4,
    seed: int = 0,
    progress: Progress = quiet,
) -> nn.Module:
    """Train `model` in place on `images` (n, ...) and `labels` (n,), and leave it in evaluation mode."""
    generator = torch.Generator().manual_seed(seed)
    batches = (len(images) - 1) // batch_size + 1
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=weight_decay, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=epochs * batches, cycle_momentum=False)
    model.train()
    with progress("training", epochs * batches) as advance:
        for _ in range(epochs):
            for chosen in torch.randperm(len(images), generator=generator).split(batch_size):
                loss = F.cross_entropy(model(images[chosen]), labels[chosen])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                advance()
    return model.eval()
