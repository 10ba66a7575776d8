"""What a model says of samples: its logits, checked to be logits, and its accuracy."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unsc.batches import Batch, pieces
from unsc.errors import UnsupportedModel


def logits_of(model: nn.Module, batch: Batch) -> Tensor:
    """The model's scores (n, classes) for a batch that is on its device, checked to be logits."""
    if isinstance(batch.inputs, dict):
        output = model(**batch.inputs)
    elif isinstance(batch.inputs, (tuple, list)):
        output = model(*batch.inputs)
    else:
        output = model(batch.inputs)
    logits = output.get("logits") if isinstance(output, dict) else getattr(output, "logits", output)
    if not torch.is_tensor(logits) or logits.dim() != 2 or len(logits) != len(batch):
        what = f"a tensor of shape {tuple(logits.shape)}" if torch.is_tensor(logits) else f"a {type(output).__name__}"
        raise UnsupportedModel(
            f"for {len(batch)} samples the model returned {what}; it must return logits, a tensor (samples, classes), "
            "or an object with such a tensor as .logits: wrap it in a module that does"
        )
    return logits


def all_logits(model: nn.Module, batch: Batch) -> Tensor:
    """As `logits_of`, for a batch of any size, a piece at a time."""
    return torch.cat([logits_of(model, piece) for piece in pieces(batch)])


def check_logits(logits: Tensor) -> None:
    """Refuse what is not logits: NaN, Inf, a single class, or probabilities."""
    if not torch.isfinite(logits).all():
        raise UnsupportedModel("the model returns NaN or Inf; check its weights and the scale of its inputs")
    if logits.shape[1] < 2:
        raise UnsupportedModel("the model has one output; a classifier needs one for each of two or more classes")
    sums = logits.sum(dim=1)
    if (logits >= 0).all() and torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        raise UnsupportedModel(
            "the model returns probabilities (no output is negative and each sample's sum to 1); "
            "return the logits before the softmax instead"
        )


@torch.no_grad()
def accuracy(model: nn.Module, batch: Batch) -> float:
    """Percent of the samples that `model`, in evaluation mode, classifies correctly."""
    batch = batch.for_model(model)
    return 100 * int((all_logits(model, batch).argmax(dim=1) == batch.labels).sum()) / len(batch)
