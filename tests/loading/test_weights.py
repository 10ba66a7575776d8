"""Weights and code that users bring: what can be read is, what cannot is said."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

from unsc.compare.scenarios import load_data
from unsc.datasets import size_of
from unsc.errors import InvalidData, InvalidRequest, UnscError, UnsupportedModel
from unsc.loading.code import import_callable
from unsc.loading.weights import filled, make_network, read_weights

MODULE = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

class Net(nn.Linear):
    def __init__(self):
        super().__init__(3, 2)

class Wrapped(nn.DataParallel):
    def __init__(self):
        super().__init__(Net())

class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.module, self.inner = nn.Linear(3, 2), nn.ModuleDict({"module": nn.Linear(3, 2)})
        self.weight = nn.Parameter(torch.zeros(1))

class Clash(nn.Module):
    def __init__(self):
        super().__init__()
        self.module = nn.Linear(3, 2)
        self.weight, self.bias = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))

def norm():
    return nn.BatchNorm1d(3)

def seven():
    return 7

def needs_width(width):
    return nn.Linear(width, 2)

def fails():
    raise ZeroDivisionError("by design")

def data():
    x, y = torch.zeros(4, 3), torch.tensor([0, 1, 0, 1])
    return TensorDataset(x, y), TensorDataset(x[:2], y[:2])

def one():
    return data()[0]

def iterables():
    return iter([]), iter([])
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a user's module in it."""
    (tmp_path / "brought_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "brought_module", raising=False)
    return tmp_path


@pytest.fixture
def state() -> dict[str, torch.Tensor]:
    return {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.tensor([1.0, -1.0])}


def _same(found: dict, expected: dict) -> bool:
    return set(found) == set(expected) and all(torch.equal(found[k], expected[k]) for k in expected)


def test_weights_of_every_kind_are_read(here: Path, state: dict) -> None:
    save_file(state, here / "a.safetensors")
    torch.save(state, here / "b.pt")
    torch.save({"state_dict": state, "epoch": 3}, here / "c.pth")
    torch.save(state, here / "d.bin", _use_new_zipfile_serialization=False)
    for name in ("a.safetensors", "b.pt", "c.pth", "d.bin"):
        assert _same(read_weights(here / name), state)
        model = make_network("brought_module:Net", here / name)
        assert isinstance(model, nn.Linear) and not model.training
        assert _same(model.state_dict(), state)


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."])
def test_names_of_wrappers_are_stripped(here: Path, state: dict, prefix: str) -> None:
    """As `DataParallel` and `torch.compile` save them; and the other way round, into a network that is wrapped."""
    save_file({prefix + name: tensor for name, tensor in state.items()}, here / "w.safetensors")
    assert _same(make_network("brought_module:Net", here / "w.safetensors").state_dict(), state)
    wrapped = make_network("brought_module:Wrapped", here / "w.safetensors")
    assert _same(wrapped.state_dict(), {f"module.{name}": tensor for name, tensor in state.items()})


def test_old_files_without_counters_of_batch_norm_fit(here: Path) -> None:
    """PyTorch fills them in; that names differ by a wrapper besides does not matter."""
    own = {name: torch.rand_like(t) for name, t in nn.BatchNorm1d(3).state_dict().items() if t.is_floating_point()}
    save_file({f"module.{name}": tensor for name, tensor in own.items()}, here / "w.safetensors")
    found = make_network("brought_module:norm", here / "w.safetensors").state_dict()
    assert found.pop("num_batches_tracked") == 0 and _same(found, own)


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated")
def test_real_wrappers_save_what_fits(here: Path, state: dict) -> None:
    model = nn.Linear(3, 2)
    model.load_state_dict(state)
    for wrapped in (nn.DataParallel(model), torch.compile(model), torch.compile(nn.DataParallel(model))):
        torch.save(wrapped.state_dict(), here / "w.pt")
        assert _same(make_network("brought_module:Net", here / "w.pt").state_dict(), state)


def test_a_layer_may_have_a_wrappers_name(here: Path) -> None:
    """Names that fit are left alone, and those that would become the same are not touched."""
    for kind in ("Twice", "Clash"):
        made = import_callable(f"brought_module:{kind}")()
        own = {name: torch.randn_like(tensor) for name, tensor in made.state_dict().items()}
        save_file(own, here / "w.safetensors")
        assert _same(make_network(f"brought_module:{kind}", here / "w.safetensors").state_dict(), own)


class Harmful:
    """A pickle that does something when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.path),)


def test_code_in_a_file_is_not_run(tmp_path: Path) -> None:
    torch.save({"weight": Harmful(tmp_path / "owned")}, tmp_path / "a.pt")
    (tmp_path / "b.pt").write_bytes(pickle.dumps(Harmful(tmp_path / "owned"), protocol=2))
    torch.save(nn.Linear(2, 2), tmp_path / "c.pt")
    for name in ("a.pt", "b.pt", "c.pt"):
        with pytest.raises(InvalidData, match=rf"cannot read .*{name} .*holds more than tensors"):
            read_weights(tmp_path / name)
    assert not (tmp_path / "owned").exists()


def test_files_that_hold_no_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"there is no file .*none\.pt"):
        read_weights(tmp_path / "none.pt")
    with pytest.raises(InvalidData, match=r"there is no file .*none\.safetensors"):
        read_weights(tmp_path / "none.safetensors")
    for name in ("dir.pt", "dir.safetensors"):
        (tmp_path / name).mkdir()
        with pytest.raises(InvalidData, match="cannot read"):
            read_weights(tmp_path / name)
    save_file({"weight": torch.ones(2)}, tmp_path / "deep.safetensors", metadata={"unsc": "[" * 100_000})
    with pytest.raises(InvalidData, match=r"the header of .*deep\.safetensors cannot be read"):
        filled(nn.Linear(1, 2), tmp_path / "deep.safetensors", name="it")
    for content in (b"", b"not weights at all\n" * 9):
        for name in ("x.pt", "x.safetensors"):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(InvalidData, match="cannot read"):
                read_weights(tmp_path / name)
    one = torch.ones(2)
    for other in ([one], one, {"epoch": 3}, {0: one}, {"model": {"weight": one}}):
        torch.save(other, tmp_path / "y.pt")
        with pytest.raises(InvalidData, match=r"y\.pt holds no state dict; save model\.state_dict\(\)"):
            read_weights(tmp_path / "y.pt")


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.booleans(), st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=8)
)
def test_a_damaged_file_is_a_message(tmp_path: Path, zipped: bool, changes: list[tuple[float, int]]) -> None:
    """Whatever bytes are wrong: tensors, or an error of this package."""
    path = tmp_path / "damaged.pt"
    torch.save({"weight": torch.ones(3)}, path, _use_new_zipfile_serialization=zipped)
    content = bytearray(path.read_bytes())
    for place, byte in changes:
        content[int(place * min(len(content), 400))] = byte
    path.write_bytes(content)
    try:
        read_weights(path)
    except UnscError as e:
        assert "damaged.pt" in str(e)


def test_weights_of_another_network_are_refused(here: Path, state: dict) -> None:
    for wrong in (
        {"weight": torch.ones(2, 4), "bias": state["bias"]},
        {"weight": state["weight"]},
        state | {"scale": torch.ones(2)},
        state | {"module.weight": state["weight"].clone()},
    ):
        save_file(wrong, here / "w.safetensors")
        with pytest.raises(InvalidData, match=r"w\.safetensors does not fit brought_module:Net: "):
            make_network("brought_module:Net", here / "w.safetensors")


def test_what_makes_no_network_is_refused(here: Path, state: dict) -> None:
    save_file(state, here / "w.safetensors")
    with pytest.raises(UnsupportedModel, match=r"seven returned a int; it must return a torch\.nn\.Module"):
        make_network("brought_module:seven", here / "w.safetensors")
    with pytest.raises(InvalidRequest, match=r"needs_width\(\) failed \(TypeError: .*; it must work without arguments"):
        make_network("brought_module:needs_width", here / "w.safetensors")
    with pytest.raises(InvalidRequest, match="brought_module has no 'Nets'"):
        make_network("brought_module:Nets", here / "w.safetensors")


def test_data_by_name_and_by_function(here: Path) -> None:
    train, test = load_data("digits")
    assert (size_of(train), size_of(test)) == (958, 599)
    train, test = load_data("brought_module:data")
    assert (size_of(train), size_of(test)) == (4, 2)
    train, test = load_data("tiny_scenario:make")
    assert (size_of(train), size_of(test)) == (120, 100)


def test_what_gives_no_data_is_refused(here: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"one returned a TensorDataset; it must return \(train, test\)"):
        load_data("brought_module:one")
    with pytest.raises(InvalidRequest, match=r"fails\(\) failed \(ZeroDivisionError: by design\)"):
        load_data("brought_module:fails")
    with pytest.raises(InvalidData, match="map-style"):
        load_data("brought_module:iterables")
    with pytest.raises(InvalidRequest, match="no scenario 'digit'; did you mean digits"):
        load_data("digit")
