"""What a user's model is wrapped in, and modules whose weights are not what they compute with.

Compiled and parallel models are opened for the work and wrapped again in the same way. Inside them parameters have the
names that the network itself gives them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.nn.parameter import UninitializedParameter
from torch.nn.utils.prune import BasePruningMethod

from unsc.errors import UnsupportedModel, listing
from unsc.sharded import is_sharded, resharding, whole_copy

Rewrap: TypeAlias = Callable[[nn.Module], nn.Module]


class Unwrapped(NamedTuple):
    """The network inside its wrappers, and how to wrap another one of its kind in the same way."""

    inner: nn.Module
    rewrap: Rewrap


def unwrapped(model: nn.Module) -> Unwrapped:
    """As `without_wrappers`, but weights that FSDP2 has sharded are made whole in a copy: all ranks take part in it."""
    inner, rewrap = without_wrappers(model)
    if not is_sharded(inner):
        return Unwrapped(inner, rewrap)
    return Unwrapped(whole_copy(inner), _after(resharding(inner), rewrap))


def without_wrappers(model: nn.Module) -> Unwrapped:
    """Open `torch.compile`, `DataParallel` and `DistributedDataParallel`, however they are nested."""
    if not isinstance(model, nn.Module):
        raise UnsupportedModel(
            f"the model is a {type(model).__name__}; give a torch.nn.Module, with its weights loaded if you have a file"
        )
    if _is_compiled(model):
        compiled: Rewrap = model.dynamo_ctx  # type: ignore[assignment]  # it has the settings, and compiles any module
        return _inside(model, model.get_submodule("_orig_mod"), compiled)
    if isinstance(model, DataParallel):
        return _inside(model, model.module, partial(_parallel, model))
    if isinstance(model, DistributedDataParallel):
        return _inside(model, model.module, partial(_distributed, model))
    return Unwrapped(model, _as_it_is)


def _after(first: Rewrap, second: Rewrap) -> Rewrap:
    return lambda model: second(first(model))


def _as_it_is(model: nn.Module) -> nn.Module:
    return model


def _inside(wrapper: nn.Module, content: nn.Module, wrap: Rewrap) -> Unwrapped:
    inner, rewrap = without_wrappers(content)

    def again(other: nn.Module) -> nn.Module:
        made = wrap(rewrap(other))
        made.training = wrapper.training  # of the wrapper alone: modules inside have modes of their own
        return made

    return Unwrapped(inner, again)


def _parallel(model: DataParallel[Any], inner: nn.Module) -> nn.Module:
    if not model.device_ids:  # made where there is no GPU: it has no other settings then
        return DataParallel(inner)
    return DataParallel(inner, model.device_ids, model.output_device, model.dim)


def _distributed(model: DistributedDataParallel, inner: nn.Module) -> nn.Module:
    known = inspect.signature(DistributedDataParallel.__init__).parameters
    buffers = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"  # before torch 2.13
    settings: dict[str, Any] = {
        "device_ids": model.device_ids,
        "output_device": model.output_device,
        "dim": model.dim,
        "process_group": model.process_group,
        buffers: getattr(model, buffers),
        "bucket_cap_mb": model.bucket_bytes_cap / 2**20,
        "find_unused_parameters": model.find_unused_parameters,
        "gradient_as_bucket_view": model.gradient_as_bucket_view,
        "static_graph": model.static_graph,
        # Processes that wait for each other here would wait for ever if only one of them forgets.
        "init_sync": False,
    }
    return DistributedDataParallel(inner, **{name: value for name, value in settings.items() if name in known})


def _is_compiled(module: nn.Module) -> bool:
    """Whether this is what torch.compile returns: importing its class would take longer than all of this package."""
    return isinstance(getattr(module, "_orig_mod", None), nn.Module) and hasattr(module, "dynamo_ctx")


class Eager(nn.Module):
    """In the place of a compiled part of a network, with the same names inside, which runs it as it is."""

    def __init__(self, content: nn.Module) -> None:
        super().__init__()
        self._orig_mod = content

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._orig_mod(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules[name]
        return getattr(self._orig_mod, name)


def make_eager(model: nn.Module) -> None:
    """Let the compiled parts of a network, which is ours, run as they are: inside compiled code no layer is seen."""
    for path, module in list(model.named_modules(remove_duplicate=False)):
        if path and _is_compiled(module):
            owner, _, name = path.rpartition(".")
            eager = Eager(module.get_submodule("_orig_mod"))
            eager.training = module.training
            setattr(model.get_submodule(owner), name, eager)


def check_editable(model: nn.Module) -> None:
    """Refuse modules that compute with something else than their parameters: pruned, quantised and scripted ones."""
    pruned, quantised, scripted = [], [], []
    for path, module in model.named_modules():
        name = path or type(module).__name__
        hooks = module._forward_pre_hooks.values()  # pyright: ignore[reportPrivateUsage]
        if any(isinstance(hook, BasePruningMethod) for hook in hooks):
            pruned.append(name)
        if isinstance(module, torch.jit.ScriptModule):
            scripted.append(name)
        own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        if _is_quantised_class(type(module)) or any(t.is_quantized for t in own) or _whole_numbers(module):
            quantised.append(name)
    if scripted:
        raise UnsupportedModel(
            f"{scripted[0]} is a TorchScript module, whose layers cannot be seen; give the module that it was scripted "
            "or traced from, and script the result"
        )
    quantised = [name for name in quantised if not any(name.startswith(f"{other}.") for other in quantised)]
    if quantised:
        raise UnsupportedModel(
            f"{listing(quantised)} {_are(quantised)} quantised: whole numbers cannot be moved by small steps. Unlearn "
            "the model before it is quantised, and quantise the result"
        )
    if pruned:
        raise UnsupportedModel(
            f"{listing(pruned)} {_are(pruned)} pruned by torch.nn.utils.prune, whose mask would be laid over every "
            "change. Make it permanent first: torch.nn.utils.prune.remove(module, 'weight'). Weights at zero may move "
            "then; prune the result again if they should not"
        )


def _is_quantised_class(kind: type) -> bool:
    return kind.__module__.startswith("torch.") and ".quantized." in kind.__module__


def _whole_numbers(module: nn.Module) -> bool:
    """Whether a weight is stored as whole numbers or in eight bits, as by bitsandbytes and by torchao."""
    weights = [p for name, p in module.named_parameters(recurse=False) if name.startswith("weight")]
    weights = [p for p in weights if not isinstance(p, UninitializedParameter)]
    return any(p.element_size() == 1 or not (p.is_floating_point() or p.is_complex()) for p in weights)


def _are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"
