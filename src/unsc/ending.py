"""The end of a network, from the first layer that is edited on.

What comes before stays as it is, and so does what it makes of a sample: it is computed once, and takes the sample's
place. Each later pass is one of the end alone, which has the edited layers under their own names.

Where a network ends so is found by tracing it. A network that cannot be traced, or whose end would give other
predictions, is used as a whole.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import torch
from torch import fx, nn

from unsc import peers
from unsc.batches import Batch, columns_of, pieces
from unsc.folding import folded
from unsc.layers import Layer, kind_of
from unsc.layout import keep_layouts
from unsc.logits import AsLogits, logits_of
from unsc.on_demand import bytes_of
from unsc.request import Request
from unsc.sharded import is_sharded
from unsc.task import BATCH, RetainFit, Samples


@dataclass(frozen=True)
class Ending:
    """A network in two parts, which have its modules and share their weights."""

    first: nn.Module
    """From a sample to all that the end is given, as a tuple."""
    end: nn.Module
    """From that to logits."""
    whole: nn.Module

    @torch.no_grad()
    def given(self, batch: Batch) -> Batch:
        """A batch as the end takes it, on the CPU."""
        own = batch.for_model(self.whole)
        inputs = own.inputs if isinstance(own.inputs, (tuple, list)) else (own.inputs,)
        return Batch(tuple(x.cpu() for x in self.first(*inputs)), batch.labels)


def shortened(
    model: nn.Module, layers: Collection[Layer], samples: Samples, request: Request, most_bytes: int
) -> tuple[nn.Module, Samples]:
    """The end of a network that has all `layers`, and samples as it takes them, in so much memory; else all as it is.

    Classes, and those that are gone, have outputs that are judged and settled in the whole network.
    """
    if request.kind == "classes" or request.gone:
        return model, samples
    ending = ending_of(model, layers, samples.probe)
    shorter = None if ending is None else ended(samples, ending, most_bytes)
    return (model, samples) if ending is None or shorter is None else (ending.end, shorter)


def ending_of(model: nn.Module, layers: Collection[Layer], probe: Batch) -> Ending | None:
    """The end of `model`, in evaluation mode, that has all `layers`; None if it has no end that can be told apart."""
    if peers.count() > 1 or is_sharded(model) or isinstance(probe.inputs, dict) or probe.paddings:
        return None
    hooks = list(model._forward_hooks.values())  # pyright: ignore[reportPrivateUsage]
    if not all(isinstance(hook, AsLogits) for hook in hooks):
        return None
    try:
        parts = _parts(model, {name for layer in layers for name in layer.parameters}, len(columns_of(probe.inputs)))
        if parts is None:
            return None
        for hook in hooks:
            parts.end.register_forward_hook(hook)
        return parts if _says_the_same(parts, probe) else None
    except Exception:  # whatever keeps foreign code from being traced, or what was traced from being run
        return None


def ended(samples: Samples, ending: Ending, most_bytes: int) -> Samples | None:
    """`samples` as the end takes them; None if they would take more memory than that, or are not at hand."""
    learned = samples.forget_fit
    if not isinstance(learned, Batch):
        return None
    kept = len(learned) + sum(map(len, samples.retain_check)) + sum(map(len, samples.validation))
    probe = samples.probe
    if bytes_of(ending.given(probe)) / len(probe) * kept > most_bytes:
        return None
    fit = samples.retain_fit
    own = _joined([ending.given(piece) for piece in pieces(learned, BATCH)])
    count = len(samples.forget_check)
    return replace(
        samples,
        forget_fit=own,
        forget_check=own if count == len(own) else own[torch.arange(count)],
        retain_fit=RetainFit(lambda positions: ending.given(fit.read(positions)), fit.positions),
        retain_check=[ending.given(batch) for batch in samples.retain_check],
        validation=[ending.given(batch) for batch in samples.validation],
        trained=None if samples.trained is None else [ending.given(batch) for batch in samples.trained],
    )


def _joined(batches: Sequence[Batch]) -> Batch:
    columns = zip(*(batch.inputs for batch in batches), strict=True)
    return Batch(tuple(torch.cat(column) for column in columns), torch.cat([batch.labels for batch in batches]))


class _Tracer(fx.Tracer):
    """Leaves alone the modules whose calls somebody looks at: those of layers, and those with hooks."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        looked_at = bool(m._forward_hooks or m._forward_pre_hooks)  # pyright: ignore[reportPrivateUsage]
        return looked_at or kind_of(m) is not None or super().is_leaf_module(m, module_qualified_name)


def _parts(model: nn.Module, moving: Collection[str], inputs: int) -> Ending | None:
    """Cut where the first of the `moving` parameters is used; None if all of the network comes after that.

    Of what the network takes, the first `inputs` are given, and others have the values that they have without.
    """
    taken = list(inspect.signature(model.forward).parameters.values())
    graph = _Tracer().trace(model, {p.name: p.default for p in taken[inputs:] if p.default is not p.empty})
    ours = {id(p) for name, p in model.named_parameters(remove_duplicate=False) if name in moving}
    later: set[fx.Node] = set()
    for node in graph.nodes:
        if _uses(model, node, ours) or not later.isdisjoint(node.all_input_nodes):
            later.add(node)
    crossing = [
        node for node in graph.nodes if _is_given(node) and node not in later and not later.isdisjoint(node.users)
    ]
    if not crossing or all(node.op == "placeholder" for node in crossing):
        return None
    first, end = fx.Graph(), fx.Graph()
    at_first: dict[fx.Node, fx.Node] = {}
    at_end = {node: end.placeholder(f"given_{i}") for i, node in enumerate(crossing)}
    for node in graph.nodes:
        if node in later:
            at_end[node] = end.node_copy(node, at_end.__getitem__)
            continue
        at_first[node] = first.node_copy(node, at_first.__getitem__)
        if not _is_given(node):  # weights that are used by themselves serve both
            at_end[node] = end.node_copy(node)
    first.output(tuple(at_first[node] for node in crossing))
    return Ending(folded(_module(model, first)), keep_layouts(_module(model, end)), model)


def _module(model: nn.Module, graph: fx.Graph) -> fx.GraphModule:
    """What computes a graph with the modules of a model, without what it does not need."""
    made = fx.GraphModule(model, graph).eval()
    made.graph.eliminate_dead_code()
    made.recompile()
    made.delete_all_unused_submodules()
    return made


def _is_given(node: fx.Node) -> bool:
    """Whether its value depends on the samples."""
    return node.op not in ("get_attr", "output")


def _uses(model: nn.Module, node: fx.Node, ours: Collection[int]) -> bool:
    """Whether a node computes with one of `ours`, the identities of parameters."""
    if node.op == "get_attr":
        owner, _, name = str(node.target).rpartition(".")
        return id(getattr(model.get_submodule(owner), name)) in ours
    if node.op != "call_module":
        return False
    return any(id(p) in ours for p in model.get_submodule(str(node.target)).parameters())


@torch.no_grad()
def _says_the_same(parts: Ending, probe: Batch) -> bool:
    """Whether the end gives the whole network's logits, however many samples there are."""
    for count in {1, len(probe)}:
        some = probe[torch.arange(count)]
        wanted = logits_of(parts.whole, some.for_model(parts.whole))
        given = parts.given(some)
        if not all(torch.is_tensor(x) and x.dim() and len(x) == count for x in given.inputs):
            return False
        found = logits_of(parts.end, given.for_model(parts.end))
        if not torch.allclose(found, wanted, rtol=1e-4, atol=1e-4 * wanted.abs().max().item()):
            return False
    return True
