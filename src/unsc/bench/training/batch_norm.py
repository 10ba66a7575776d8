"""Give batch norm the statistics of evaluation mode.

Dropout scales up what it keeps, so that the mean stays; but a maximum over dropped and scaled values is larger than
one over all of them, and their variance is larger too. Batch norm that comes after dropout and max pooling therefore
learns statistics, while training, that do not fit once dropout is off.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from unsc.errors import InvalidData


def dropout_shifts_batch_norm(model: nn.Module) -> bool:
    """Whether the network has both active dropout and batch norm that tracks statistics."""
    return bool(_tracked(model)) and any(isinstance(m, _DropoutNd) and m.p > 0 for m in model.modules())


def reestimate_batch_norm(
    model: nn.Module, images: Tensor, *, samples: int = 2048, batch_size: int = 256, seed: int = 0
) -> None:
    """Replace the running statistics by their average over batches of `images` (n, ...), with dropout off.

    `samples` images are drawn without replacement, by the `seed`, in batches of at most `batch_size`. Every weight
    stays as it is, and so does each module's mode.
    """
    chosen = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[:samples]
    # Every batch counts the same in the average, so that they must be of the same size, give or take one.
    batches = [b for b in chosen.tensor_split(-(-len(chosen) // batch_size) or 1) if len(b) > 1]
    if not batches:
        raise InvalidData(f"batch norm statistics need at least 2 images; there are {len(images)}")
    layers = _tracked(model)
    modes = {module: module.training for module in model.modules()}
    momenta = {layer: layer.momentum for layer in layers}
    device = next(model.parameters()).device
    try:
        model.eval()
        for layer in layers:
            layer.train()
            layer.reset_running_stats()
            layer.momentum = None  # the plain average of all batches
        with torch.no_grad():
            for batch in batches:
                model(images[batch.to(images.device)].to(device))
    finally:
        for layer, momentum in momenta.items():
            layer.momentum = momentum
        for module, mode in modes.items():
            module.training = mode


def _tracked(model: nn.Module) -> list[_BatchNorm]:
    return [m for m in model.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
