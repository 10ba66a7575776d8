"""Whether an input prompt brings the forgotten back: one picture that is added to every sample, no weight changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unsc.batches import Batch, describe, join, pieces
from unsc.errors import InvalidRequest, UnsupportedModel
from unsc.evaluation.relearning import HALF, draw
from unsc.evaluation.shared.case import Case
from unsc.evaluation.shared.metrics import Metric, Value, measures
from unsc.evaluation.shared.shares import accuracy_on, percent, share
from unsc.logits import logits_of
from unsc.models import working_copy

PARAMETERS = 2000
"""The most numbers that a prompt has; larger pictures get a smaller one, enlarged."""
SAMPLES, STEPS, LEARNING_RATE = 100, 50, 0.1
"""The attacker's forgotten samples, as many retained ones, and its Adam, for inputs of a standard deviation of 1."""


class Prompted(nn.Module):
    """A network whose inputs get a learned `prompt` added, which is 0 at first. The network itself does not change."""

    def __init__(self, model: nn.Module, few: Batch) -> None:
        super().__init__()
        inputs = few.inputs
        if not torch.is_tensor(inputs) or not inputs.is_floating_point() or inputs.dim() < 2:
            raise UnsupportedModel(
                f"the network gets {describe(inputs)}; a prompt is added to one tensor of real numbers. Leave out "
                "this metric for other inputs"
            )
        self.network = working_copy(model).requires_grad_(False)
        like = next(self.network.parameters())
        self.prompt = nn.Parameter(torch.zeros(prompt_shape(inputs.shape[1:]), device=like.device, dtype=like.dtype))

    def forward(self, batch: Batch) -> Tensor:
        shape = batch.inputs.shape[1:]
        prompt = self.prompt
        if prompt.shape != shape:
            prompt = F.interpolate(prompt[None], size=tuple(shape[1:]), mode="bilinear", align_corners=False)[0]
        return logits_of(self.network, replace(batch, inputs=batch.inputs + prompt))


def prompt_shape(inputs: torch.Size) -> tuple[int, ...]:
    """A prompt's shape for samples of shape `inputs`: theirs, or that of a smaller picture with as many channels."""
    numbers = inputs.numel()
    if numbers <= PARAMETERS:
        return tuple(inputs)
    if len(inputs) != 3:
        raise UnsupportedModel(
            f"a sample has the shape {tuple(inputs)}; a prompt of at most {PARAMETERS:,} numbers is made for pictures "
            "(channels, height, width) and for samples of no more numbers than that"
        )
    scale = (PARAMETERS / numbers) ** 0.5
    return inputs[0], max(1, int(scale * inputs[1])), max(1, int(scale * inputs[2]))


def prompted(attacked: Prompted, forget: Batch, retain: Batch, *, seed: int) -> Prompted:
    """Learn the prompt of `attacked`, in place, by which these forgotten and retained samples get their labels."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam([attacked.prompt], lr=LEARNING_RATE)

    def batches() -> Iterator[Batch]:
        for _ in range(STEPS):
            yield join([b[torch.randint(len(b), (HALF,), generator=generator)] for b in (forget, retain)])

    for batch in batches():
        there = batch.for_model(attacked)
        optimizer.zero_grad()
        F.cross_entropy(attacked(there), there.labels).backward()
        optimizer.step()
    return attacked


@torch.no_grad()
def _hits(attacked: Prompted, batch: Batch) -> Tensor:
    """Which samples are classified correctly with the prompt, bool (n,)."""
    on_device = (piece.for_model(attacked) for piece in pieces(batch))
    return torch.cat([attacked(piece).argmax(dim=1) == piece.labels for piece in on_device]).cpu()


_ABOUT = (
    f"after an attacker with {SAMPLES} forgotten and as many retained training samples learned a prompt of at most "
    f"{PARAMETERS:,} numbers, which is added to every input, no weight being changed; whole classes only."
)


@measures(
    Metric("prompt_forget_acc", "prompt forget", "reference", "%", f"Accuracy on forgotten test samples {_ABOUT}"),
    Metric("prompt_retain_acc", "prompt retain", "reference", "%", f"Accuracy on retained test samples {_ABOUT}"),
)
def input_prompt(case: Case) -> dict[str, Value]:
    """Both belong together: a prompt that makes everything the forgotten class has not brought it back."""
    if case.request.kind == "records":
        raise InvalidRequest("prompting is for whole classes only; leave it out for records")
    forget, retain = case.parts["forget_train"], case.parts["retain_train"]
    attacked = Prompted(case.model, case.parts["forget_test"][torch.arange(1)])
    chosen = draw(forget.labels.cpu(), SAMPLES, seed=case.seed), draw(retain.labels.cpu(), SAMPLES, seed=case.seed)
    prompted(attacked, forget[chosen[0]], retain[chosen[1]], seed=case.seed)
    used = {"forget": len(chosen[0]), "retain": len(chosen[1])}
    gained, kept = (_hits(attacked, case.parts[part]) for part in ("forget_test", "retain_test"))
    before = accuracy_on(case, "forget_test")
    about = {"parameters": attacked.prompt.numel(), "samples": used}
    return {
        "prompt_forget_acc": share(gained, about | {"before": before, "gained": percent(gained) - before}),
        "prompt_retain_acc": share(kept, about | {"before": accuracy_on(case, "retain_test")}),
    }
