"""Wrapped models come back wrapped; models whose weights are not what they compute with are refused."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from blobs import blobs, learned, network
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.nn.utils import prune
from torch.utils.data import TensorDataset

import unsc
from unsc.errors import UnsupportedModel
from unsc.wrappers import check_editable, unwrapped


@pytest.fixture(scope="module")
def data() -> TensorDataset:
    return blobs()


@pytest.fixture(scope="module")
def model(data: TensorDataset) -> nn.Sequential:
    """Knows all four classes. Tests must not change it."""
    return learned(network(), data)


@pytest.fixture
def one_process(tmp_path: Path) -> Iterator[None]:
    where = (tmp_path / "store").as_uri()
    torch.distributed.init_process_group("gloo", init_method=where, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def compiled(model: nn.Module, backend: Any) -> nn.Module:
    """`torch.compile` gives modules for modules, which its type does not say."""
    found = torch.compile(model, backend=backend)
    assert isinstance(found, nn.Module)
    return found


def forgotten_alike(wrapped: nn.Module, model: nn.Module, data: TensorDataset) -> nn.Module:
    """The result for a wrapped model, checked to be that of the model itself in the same wrapper."""
    plain = unsc.forget(model, data, classes=[3], max_passes=2)
    result = unsc.forget(wrapped, data, classes=[3], max_passes=2)
    assert type(result.model) is type(wrapped)
    assert result.frozen == plain.frozen
    inner = unwrapped(result.model).inner
    assert inner.state_dict().keys() == plain.model.state_dict().keys()
    assert all(torch.equal(t, inner.state_dict()[name]) for name, t in plain.model.state_dict().items())
    assert {p.data_ptr() for p in wrapped.parameters()}.isdisjoint(p.data_ptr() for p in result.model.parameters())
    assert result.model.training == wrapped.training
    with torch.no_grad():
        torch.testing.assert_close(result.model(data.tensors[0]), plain.model(data.tensors[0]))
    return result.model


def test_a_compiled_model_comes_back_compiled(model: nn.Module, data: TensorDataset) -> None:
    """By the same backend: it sees the graph of the result."""
    seen: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: object) -> object:
        seen.append(len(graph.graph.nodes))
        return graph.forward

    forgotten_alike(compiled(model, backend), model, data)
    assert seen, "the result was called, but not compiled"


def test_data_parallel_comes_back_parallel(model: nn.Module, data: TensorDataset) -> None:
    result = forgotten_alike(DataParallel(model), model, data)
    assert isinstance(result, DataParallel)
    assert result.device_ids == DataParallel(model).device_ids


def test_distributed_data_parallel_comes_back_distributed(
    one_process: None, model: nn.Module, data: TensorDataset
) -> None:
    """With its settings, and able to learn."""
    wrapped = DistributedDataParallel(model, find_unused_parameters=True, bucket_cap_mb=7, gradient_as_bucket_view=True)
    result = forgotten_alike(wrapped, model, data)
    assert isinstance(result, DistributedDataParallel)
    for setting in ("find_unused_parameters", "bucket_bytes_cap", "gradient_as_bucket_view", "process_group"):
        assert getattr(result, setting) == getattr(wrapped, setting)
    result(data.tensors[0]).sum().backward()
    assert all(p.grad is not None for p in result.parameters())


def test_wrappers_may_be_nested(model: nn.Module, data: TensorDataset) -> None:
    wrapped = compiled(DataParallel(model), "eager")
    inner, rewrap = unwrapped(wrapped)
    assert inner is model
    again = rewrap(network())
    assert type(again) is type(wrapped)
    assert isinstance(again.get_submodule("_orig_mod"), DataParallel)


def test_compiled_parts_are_edited_and_stay_compiled(model: nn.Sequential, data: TensorDataset) -> None:
    """Their layers are seen as those of the rest are."""
    part = compiled(nn.Sequential(model[0], model[1]), "eager")
    result = unsc.forget(nn.Sequential(part, model[2]), data, classes=[3], max_passes=2)
    plain = unsc.forget(model, data, classes=[3], max_passes=2)
    assert result.frozen == {}
    assert type(result.model.get_submodule("0")) is type(part)
    for ours, theirs in zip(result.model.parameters(), plain.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("training", [True, False])
def test_each_module_keeps_its_mode(model: nn.Module, training: bool) -> None:
    """The wrapper's own mode is not that of what is inside."""
    wrapped = DataParallel(network().eval())
    wrapped.training = training
    again = unwrapped(wrapped).rewrap(network().eval())
    assert again.training == training
    assert not any(module.training for module in again.get_submodule("module").modules())


def test_a_pruned_model_is_refused_until_its_mask_is_permanent(model: nn.Module, data: TensorDataset) -> None:
    pruned = learned(network(), data)
    prune.l1_unstructured(pruned[0], "weight", 0.3)
    with pytest.raises(UnsupportedModel, match=r"0 is pruned.*prune\.remove\(module, 'weight'\)"):
        unsc.forget(pruned, data, classes=[3])
    prune.remove(pruned[0], "weight")
    check_editable(pruned)


def test_a_quantised_model_is_refused(model: nn.Module, data: TensorDataset) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that this way to quantise will move
        quantised = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    with pytest.raises(UnsupportedModel, match=r"0, 2 are quantised.*before it is quantised"):
        unsc.forget(quantised, data, classes=[3])


def test_weights_in_eight_bits_are_refused() -> None:
    """As layers of bitsandbytes have them."""
    layer = nn.Linear(3, 2)
    layer.weight = nn.Parameter(torch.zeros(2, 3, dtype=torch.int8), requires_grad=False)
    with pytest.raises(UnsupportedModel, match="Linear is quantised"):
        check_editable(layer)


def test_a_scripted_model_is_refused(model: nn.Module) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that there are newer ways
        scripted = torch.jit.trace(model, torch.zeros(2, 6))
    assert isinstance(scripted, nn.Module)
    with pytest.raises(UnsupportedModel, match=r"TorchScript.*scripted or traced from"):
        check_editable(scripted)
