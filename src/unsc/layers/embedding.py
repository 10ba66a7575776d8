"""Embeddings and embedding bags: one-hot rows, and rows of counts.

Looking up a token is to multiply its one-hot row by the table. Rows of different tokens are orthogonal, so their moment
is diagonal, the tokens' counts, and a table of V vectors is V groups of one column each. Nothing of size (n, V) or
(V, V) is ever made: a call gives one row of each group, the root of the token's count, which has the same moment.

A bag adds up vectors, so its rows are (weighted) counts, and tokens that come together are not orthogonal. Up to
`_WHOLE` tokens the rows are just that, and `rows @ W.T` is the output. Beyond, each token is again taken by itself: a
bag with weights c changes by at most `sum |c| * sum_v |c_v| |D_v|^2` (Cauchy and Schwarz), so a diagonal bounds what a
change D costs, and tokens that are in a retained bag do not move in the null space. Retained outputs are protected as
before; what is lost are changes of several tokens that cancel in every retained bag.

The padding vector is part of no layer, and so never moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from unsc.layers.call import Call
from unsc.layers.kind import Kind, Place
from unsc.layers.layer import Layer
from unsc.layers.registry import register
from unsc.layers.rows import Rows, Strided, flat

Table: TypeAlias = nn.Embedding | nn.EmbeddingBag

_WHOLE = 4096
"""Tokens up to which a bag's moment, (tokens, tokens), is kept whole."""


@register
class Embedding(Kind[Table]):
    name = "Embedding, EmbeddingBag"

    def modules(self) -> tuple[type[Table], ...]:
        return (nn.Embedding, nn.EmbeddingBag)

    def obstacle(self, module: Table) -> str | None:
        if isinstance(module, nn.EmbeddingBag) and module.mode == "max":
            return 'an EmbeddingBag with mode="max" is not linear in its weight'
        if module.max_norm is not None:
            return f"max_norm={module.max_norm} rescales the weight whenever it is used"
        if module.scale_grad_by_freq:
            return "scale_grad_by_freq=True: its gradients are not those of the loss"
        return None

    def layers(self, place: Place[Table]) -> Iterator[Layer | None]:
        spans = _spans(place.module)
        for role, (start, stop) in spans.items():
            size, width = stop - start, place.module.embedding_dim
            # A table without padding is viewed whole: others that share it have the same view.
            weight = place.view("weight", start, stop) if size < place.module.num_embeddings else place.view("weight")
            leaf = role if len(spans) > 1 else ""
            if _by_token(place.module):
                yield place.layer(weight, None, outputs=size * width, inputs=1, groups=size, role=role, leaf=leaf)
            else:
                yield place.layer(weight, None, outputs=width, inputs=size, transposed=True, role=role, leaf=leaf)

    def rows(self, call: Call[Table], role: str) -> Rows:
        seen = call.once(_entries)
        start, stop = _spans(call.module)[role]
        if _by_token(call.module):
            return Strided(seen.energies(call.module)[start:stop, None, None].sqrt(), along=2)
        return flat(seen.counts(call.module)[:, start:stop])

    def channels(self, module: Table) -> int:
        return -1

    def recomputed(self, call: Call[Table]) -> Tensor:
        seen, weight = call.once(_entries), call.module.weight
        parts = weight[seen.tokens] * seen.weights[:, None]
        return weight.new_zeros(seen.bags, weight.shape[1]).index_add(0, seen.owners, parts)

    def returned(self, call: Call[Table], role: str) -> object:
        output, width = call.output, call.module.embedding_dim
        return output.reshape(-1, width) if isinstance(output, Tensor) and output.shape[-1:] == (width,) else output


@dataclass(frozen=True)
class _Entries:
    """What was looked up, each entry with the bag that it is added to; a plain embedding has a bag for each."""

    tokens: Tensor
    owners: Tensor
    weights: Tensor
    bags: int

    def counts(self, module: Table) -> Tensor:
        """(bags, tokens)"""
        counts = self.weights.new_zeros(self.bags, module.num_embeddings)
        return counts.index_put((self.owners, self.tokens), self.weights, accumulate=True)

    def energies(self, module: Table) -> Tensor:
        """For each token, (tokens,): its count, or what bounds the moment of its bags."""
        sizes = self.weights.abs()
        totals = sizes.new_zeros(self.bags).index_add(0, self.owners, sizes)
        return sizes.new_zeros(module.num_embeddings).index_add(0, self.tokens, sizes * totals[self.owners])


def _by_token(module: Table) -> bool:
    """Whether each token is a group of its own."""
    return isinstance(module, nn.Embedding) or module.num_embeddings > _WHOLE


def _spans(module: Table) -> dict[str, tuple[int, int]]:
    """The tokens that may be edited, by role: all of them, or those before and those after padding."""
    size, padding = module.num_embeddings, module.padding_idx
    if padding is None:
        return {"input": (0, size)}
    spans = {"before_padding": (0, padding), "after_padding": (padding + 1, size)}
    return {role: (start, stop) for role, (start, stop) in spans.items() if start < stop}


def _entries(call: Call[Table]) -> _Entries:
    if isinstance(call.module, nn.EmbeddingBag):
        return _bag_entries(call, call.module)
    tokens = call.first.flatten()
    return _Entries(
        tokens, torch.arange(len(tokens), device=tokens.device), call.module.weight.new_ones(len(tokens)), len(tokens)
    )


def _bag_entries(call: Call[Table], module: nn.EmbeddingBag) -> _Entries:
    tokens, offsets, given = call.first, call.option(1, "offsets"), call.option(2, "per_sample_weights")
    if offsets is None:  # (bags, tokens of each)
        bags = len(tokens)
        owners = torch.arange(bags, device=tokens.device).repeat_interleave(tokens.shape[1])
    else:
        bags = len(offsets) - int(module.include_last_offset)
        owners = (
            torch.searchsorted(offsets, torch.arange(len(tokens), device=tokens.device).to(offsets), right=True) - 1
        )
    tokens = tokens.flatten()
    weights = module.weight.new_ones(len(tokens)) if given is None else given.flatten().to(module.weight)
    real = owners < bags if module.padding_idx is None else (owners < bags) & (tokens != module.padding_idx)
    tokens, owners, weights = tokens[real], owners[real], weights[real]
    if module.mode == "mean":
        weights = weights / torch.bincount(owners, minlength=bags)[owners]
    return _Entries(tokens, owners, weights, bags)
