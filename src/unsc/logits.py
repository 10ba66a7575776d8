"""What a model says of samples: its logits, checked to be logits, and its accuracy.

A model may return its logits as a tensor, in a dict or in an object that has them as `.logits`. For any other output
the user says where they are (`logits=lambda output: output[0]`): `AsLogits` then stands at the root of our private copy
of the model, and turns its outputs into logits. A network with one output for two classes has the logits 0 and z.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from unsc import peers
from unsc.batches import Batch, HasSamples
from unsc.errors import UnsupportedModel
from unsc.memory import in_pieces
from unsc.pieces import looked_at
from unsc.sharded import one_pass, stand_in, unseen

OfOutput: TypeAlias = Callable[[Any], Tensor]
"""Takes what a model returns and gives its logits (n, classes), or (n,) or (n, 1) for two classes."""

_PIECE = 256
"""Samples that are read before they are passed through the network, at most."""
_LOOKED_AT = 4
"""Samples that tell whether outputs are logits."""


class AsLogits:
    """A forward hook that turns what a model returns into logits, as the user says."""

    def __init__(self, of_output: OfOutput) -> None:
        self.of_output = of_output

    def __call__(self, module: nn.Module, args: Any, output: Any) -> Tensor:
        try:
            logits = self.of_output(output)
        except Exception as e:  # the user's own function: it may raise anything
            raise UnsupportedModel(
                f"logits=... cannot take what the model returned, {_in_words(output)} ({type(e).__name__}: {e}); give "
                "a function of that which returns logits"
            ) from e
        if not torch.is_tensor(logits):
            raise UnsupportedModel(f"logits=... returned {_in_words(logits)}; it must return a tensor")
        return logits


def logits_of(model: nn.Module, batch: Batch) -> Tensor:
    """The model's scores (n, classes) for a batch that is on its device, checked to have that shape."""
    with one_pass(model, batch):
        if isinstance(batch.inputs, dict):
            output = model(**batch.inputs)
        elif isinstance(batch.inputs, (tuple, list)):
            output = model(*batch.inputs)
        else:
            output = model(batch.inputs)
    logits = output.get("logits") if isinstance(output, dict) else getattr(output, "logits", output)
    if torch.is_tensor(logits) and logits.shape in ((len(batch),), (len(batch), 1)):
        one = logits.flatten()
        return torch.stack([torch.zeros_like(one), one], dim=1)
    if not torch.is_tensor(logits) or logits.dim() != 2 or len(logits) != len(batch):
        raise UnsupportedModel(
            f"for {len(batch)} samples the model returned {_in_words(output)}; it must return logits, a tensor "
            f"(samples, classes), or an object with such a tensor as .logits. {_remedy(output, len(batch))}"
        )
    return logits


def all_logits(model: nn.Module, batch: Batch) -> Tensor:
    """As `logits_of`, for a batch of any size, a piece at a time, and smaller pieces where memory runs out."""

    def of(start: int, stop: int) -> Tensor:
        whole = stop - start == len(batch)
        return logits_of(model, batch if whole else batch[torch.arange(start, stop, device=batch.labels.device)])

    return torch.cat(list(in_pieces(len(batch), looked_at(batch.labels.device), of)))


@torch.no_grad()
def shared_logits(model: nn.Module, samples: HasSamples, positions: Tensor | None = None) -> Tensor:
    """The scores of any number of samples, or of those at `positions` (k,), without gradients.

    All ranks have the samples, and each passes a part of them through the network.
    """
    if isinstance(samples, Batch) and positions is None and peers.count() == 1:
        return all_logits(model, samples.for_model(model))
    chosen = torch.arange(len(samples)) if positions is None else positions

    def of(piece: Tensor) -> Tensor:
        return peers.everyones(len(piece), lambda own: all_logits(model, samples[piece[own]].for_model(model)))

    return torch.cat([of(piece) for piece in chosen.split(_PIECE)])


def in_step(model: nn.Module, batches: Iterable[Batch]) -> Iterator[Batch]:
    """This rank's batches, for a forward pass without gradients over each.

    Passes of a sharded network are made by all ranks together: one that has no batch left makes them unseen, as long as
    others have any.
    """
    if stand_in(model) is None:
        yield from batches
        return
    left = iter(batches)
    while True:
        batch = next(left, None)
        if not sum(peers.total_of(batch is not None)):
            return
        if batch is None:
            make_unseen(model)
        else:
            yield batch


@torch.no_grad()
def make_unseen(model: nn.Module) -> None:
    """A forward pass that other ranks need, if the network is sharded."""
    if (one := stand_in(model)) is not None:
        with unseen():
            logits_of(model, one.for_model(model))


def check_logits(logits: Tensor) -> None:
    """Refuse what is not logits: NaN, Inf, no class to choose from, or probabilities."""
    if not torch.isfinite(logits).all():
        raise UnsupportedModel(
            "the model returns NaN or Inf; check its weights and the scale of its inputs (instead of "
            "logits=torch.logit, take logits=lambda p: p.logit(eps=1e-6))"
        )
    if logits.shape[1] < 2:
        raise UnsupportedModel("the model has no output; a classifier needs one for each class, or one for two classes")
    sums = logits.sum(dim=1)
    if (logits >= 0).all() and torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        raise UnsupportedModel(
            "the model returns probabilities (no output is negative and each sample's sum to 1); "
            "return the logits before the softmax instead, or give logits=torch.log"
        )


def check_not_sigmoid(model: nn.Module, batch: Batch) -> None:
    """Refuse outputs that are all from 0 to 1, as a sigmoid's are, unless they are known to be logits.

    They are known to be if the user says which part of the output they are, or if they come straight out of a linear
    layer, which has no bounds.
    """
    if any(isinstance(hook, AsLogits) for hook in model._forward_hooks.values()):  # pyright: ignore[reportPrivateUsage]
        return
    few = batch[torch.arange(min(_LOOKED_AT, len(batch)))].for_model(model)
    with torch.enable_grad():
        logits = logits_of(model, few)
    if ((logits >= 0) & (logits <= 1)).all() and not _from_linear(logits):
        raise UnsupportedModel(
            "all outputs of the model are from 0 to 1, as probabilities by a sigmoid are; return what goes into the "
            "sigmoid instead, or give logits=torch.logit. If they are logits, say so with logits=lambda z: z"
        )


@torch.no_grad()
def accuracy(model: nn.Module, batch: Batch) -> float:
    """Percent of the samples that `model`, in evaluation mode, classifies correctly."""
    batch = batch.for_model(model)
    return 100 * int((shared_logits(model, batch).argmax(dim=1) == batch.labels).sum()) / len(batch)


_LINEAR = ("Addmm", "Mm", "Bmm", "Baddbmm", "Mv", "Convolution", "Linear")
_UNBOUNDED = (
    "View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "Select", "Slice", "T", "Transpose", "Permute",
    "Clone", "ToCopy", "Stack", "Cat", "Add", "Sub", "Neg", "Mul", "Div", "Mean", "Sum", "AvgPool2D",
    "AdaptiveAvgPool2D",
)  # fmt: skip
"""Operations, by their name in the graph of gradients, whose results have no bounds if what they take has none."""


def _from_linear(logits: Tensor) -> bool:
    """Whether a linear layer gave these values, as the graph of gradients tells."""
    waiting = [logits.grad_fn]
    while waiting:
        node = waiting.pop()
        name = node.name().partition("Backward")[0] if node is not None else ""
        if name in _LINEAR:
            return True
        if node is not None and name in _UNBOUNDED:
            waiting += [before for before, _ in node.next_functions]
    return False


def _in_words(output: object) -> str:
    if torch.is_tensor(output):
        return f"a tensor of shape {tuple(output.shape)}"
    if isinstance(output, dict):
        return f"a {type(output).__name__} with the keys {', '.join(map(str, output))}"
    return f"a {type(output).__name__}"


def _remedy(output: object, n: int) -> str:
    """How to point at the logits in an output, with the first part of it that may be them."""
    if isinstance(output, dict):
        parts = [(repr(key), value) for key, value in output.items()]
    elif isinstance(output, (tuple, list)):
        parts = [(str(i), value) for i, value in enumerate(output)]
    else:
        parts = []
    for name, value in parts:
        if torch.is_tensor(value) and value.dim() == 2 and len(value) == n:
            return f"Say where they are: logits=lambda output: output[{name}]"
    return "Say how to get them with logits=..., a function of the output"
