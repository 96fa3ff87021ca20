"""Weights of other programs: prefixes, checkpoints, pickles that are refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from radii.errors import InputError
from radii.models.classifier import Classifier
from radii.models.io.weights import _read_weights, fill

X = torch.rand(5, 6)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).eval()


def prefixed(prefix: str, net: nn.Module) -> dict[str, Tensor]:
    return {prefix + name: tensor for name, tensor in net.state_dict().items()}


@pytest.mark.parametrize("prefix", ["", "module.", "model.", "_orig_mod.", "model.module.", "net.backbone."])
@pytest.mark.parametrize("kind", ["safetensors", "pth"])
def test_a_prefix_of_a_wrapper_is_removed(tmp_path: Path, prefix: str, kind: str) -> None:
    source, path = network(), tmp_path / f"w.{kind}"
    save_file(prefixed(prefix, source), path) if kind == "safetensors" else torch.save(prefixed(prefix, source), path)
    for target in (network(), Classifier(network())):
        fill(target, path)
        assert torch.equal(target.eval()(X), source(X)), "a radii.Classifier takes the weights of the network inside"


@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: {"epoch": 3, "state_dict": state, "optimizer": {"lr": 0.1}},
        lambda state: {"model": state, "ema": state, "best": 0.5},
        lambda state: {"weird": state},
    ],
)
def test_the_state_dict_of_a_checkpoint_is_found(tmp_path: Path, wrap: Any) -> None:
    source, target = network(), network()
    torch.save(wrap(source.state_dict()), tmp_path / "c.ckpt")
    fill(target, tmp_path / "c.ckpt")
    assert torch.equal(target(X), source(X))


def test_old_files_without_counters_fit(tmp_path: Path) -> None:
    source, target = network(), network()
    state = {name: tensor for name, tensor in source.state_dict().items() if "num_batches" not in name}
    torch.save(state, tmp_path / "w.pt")
    fill(target, tmp_path / "w.pt")
    assert torch.equal(target(X), source(X))


class Bomb:
    def __reduce__(self) -> Any:
        return (os.system, ("touch exploded",))


@pytest.mark.parametrize("content", [network(), {"model": Bomb()}, Bomb()])
def test_pickles_run_nothing(tmp_path: Path, content: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(content, tmp_path / "w.pth")
    with pytest.raises(InputError, match="holds more than tensors"):
        _read_weights(tmp_path / "w.pth")
    (tmp_path / "w.pth").rename(tmp_path / "w.safetensors")
    with pytest.raises(InputError, match="is a pickle"):
        _read_weights(tmp_path / "w.safetensors")
    assert not (tmp_path / "exploded").exists()


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    torch.save({"epoch": 3, "lr": 0.1}, tmp_path / "none.pth")
    with pytest.raises(InputError, match="holds no state dict; its entries are epoch, lr"):
        _read_weights(tmp_path / "none.pth")
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(InputError, match="must hold a state dict, names and tensors, got list"):
        _read_weights(tmp_path / "list.pth")
    (tmp_path / "cut.pth").write_bytes(b"PK\x03\x04garbage")
    with pytest.raises(InputError, match="is not a whole state dict"):
        _read_weights(tmp_path / "cut.pth")
    torch.save(nn.Linear(6, 4).state_dict(), tmp_path / "other.pth")
    with pytest.raises(InputError, match=r"does not fit the model: missing 0\.bias"):
        fill(network(), tmp_path / "other.pth")


class Net(nn.Module):
    def __init__(self, layers: int = 1) -> None:
        super().__init__()
        self.layer1 = nn.Linear(4, 4)
        self.layer2 = nn.Linear(4, 4) if layers > 1 else nn.Identity()
        self.head = nn.Linear(4, 3)


@pytest.mark.parametrize("prefix", ["", "model.", "lit.net."])
def test_tensors_of_other_modules_are_left_out_and_named(
    tmp_path: Path, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A checkpoint of Lightning has the tensors of the loss and of metrics beside those of the network."""
    source, target = Net(), Net()
    tensors = prefixed(prefix, source) | {"criterion.weight": torch.ones(3), "metric.total": torch.zeros(())}
    torch.save({"state_dict": tensors, "epoch": 3, "hyper_parameters": {"lr": 0.1}}, tmp_path / "last.ckpt")
    fill(target, tmp_path / "last.ckpt")
    assert torch.equal(target.head.weight, source.head.weight)
    assert "left out are 2 tensors that the network does not have: criterion.weight, metric.total" in caplog.text


def test_a_deeper_network_and_two_networks_do_not_fit(tmp_path: Path) -> None:
    torch.save(Net(2).state_dict(), tmp_path / "deep.th")
    with pytest.raises(InputError, match=r"not in the model: layer2\.bias"):
        fill(Net(), tmp_path / "deep.th")
    torch.save(prefixed("student.", Net()) | prefixed("teacher.", Net()), tmp_path / "two.pth")
    with pytest.raises(
        InputError,
        match=r"holds 2 networks that fit the model, under student\. and teacher\.; .*model\.student\.state_dict",
    ):
        fill(Net(), tmp_path / "two.pth")
