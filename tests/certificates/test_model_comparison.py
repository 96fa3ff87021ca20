"""A certificate is about a network that radii holds: it runs, is saved, is exported, and one's own model must agree."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import radii
from radii.certificates.certificate_file import read_certificate
from radii.errors import InputError
from radii.networks.frozen import Frozen

HEADS: dict[str, Callable[[], list[nn.Module]]] = {
    "logits": lambda: [nn.Linear(8, 3)],
    "softmax": lambda: [nn.Linear(8, 3), nn.Softmax(1)],
    "sigmoids": lambda: [nn.Linear(8, 3), nn.Sigmoid()],
    "one sigmoid": lambda: [nn.Linear(8, 1), nn.Sigmoid()],
    "one sigmoid without an axis": lambda: [nn.Linear(8, 1), nn.Flatten(0), nn.Sigmoid()],
    "one logit": lambda: [nn.Linear(8, 1)],
}
METHODS = [("margin", "l2"), ("crown", "linf"), ("complete", "linf"), ("auto", "linf")]


def network(head: str = "logits") -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), *HEADS[head]()).eval()


def inputs(n: int = 12) -> Tensor:
    return torch.rand(n, 4, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(("method", "norm"), METHODS)
def test_the_network_returns_the_predictions_and_its_certificate_assumes_less(
    head: str, method: str, norm: str
) -> None:
    model, x = network(head), inputs()
    proof = radii.certify(model, x, method, f"{norm}:0.01", seconds=2)
    own = proof.network
    assert own is not None
    assert torch.equal(own(x).argmax(1), proof.prediction)
    assert bool((proof.radius > 0).any())
    if own(x).shape == model(x).shape:
        torch.testing.assert_close(own(x), model(x).detach())
    again = radii.certify(own, x, method, f"{norm}:0.01", seconds=2)
    assert again.network is not None
    assert again.network.digest == own.digest
    assert torch.equal(again.prediction, proof.prediction)
    assert [line for line in proof.assumptions if "your model" in line]
    assert not [line for line in again.assumptions if "your model" in line]


def test_the_network_has_weights_of_its_own() -> None:
    model, x = network(), inputs()
    proof = radii.certify(model, x, "crown", "linf:0.01")
    assert proof.network is not None
    before, values = proof.network.digest, proof.network(x)
    with torch.no_grad():
        model[0].weight.add_(1)
    assert proof.network.digest == before
    assert torch.equal(proof.network(x), values)
    proof.check(proof.network)
    proof.check(copy.deepcopy(proof.network))
    with pytest.raises(InputError, match="weights or buffers"):
        proof.check(model)
    other = copy.deepcopy(proof.network)
    other.get_buffer("tensor0").add_(1e-7)
    with pytest.raises(InputError, match="digest"):
        proof.check(other)


@pytest.mark.parametrize("head", HEADS)
def test_a_certificate_is_read_as_it_was_written(head: str, tmp_path: Path) -> None:
    model, x = network(head), inputs()
    proof = radii.certify(model, x, "crown", "linf:0.01")
    proof.save(tmp_path / "proof.safetensors", x)
    again = read_certificate(tmp_path / "proof.safetensors")
    assert proof.network is not None
    assert again.network is not None
    assert again.network.digest == proof.network.digest
    assert torch.equal(again.network(x), proof.network(x))
    assert torch.equal(again.radius, proof.radius)
    assert (again.norm, again.kind, again.method, again.assumptions) == (
        "linf",
        "deterministic",
        "crown",
        proof.assumptions,
    )


def test_the_onnx_file_holds_the_certificate_and_returns_the_same_values(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    torch.manual_seed(0)
    layers = [
        nn.Conv2d(1, 4, 3, 2, 1, padding_mode="circular"),
        nn.BatchNorm2d(4),
        nn.GELU(),
        nn.MaxPool2d(2, ceil_mode=True),
    ]
    model = nn.Sequential(*layers, nn.ConvTranspose2d(4, 2, 3, 2), nn.Flatten(), nn.Linear(50, 3), nn.Softmax(1)).eval()
    x = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    proof = radii.certify(model, x, "crown", "linf:0.001")
    proof.save(tmp_path / "net.onnx", x)
    file = onnx.load(tmp_path / "net.onnx")
    onnx.checker.check_model(file, full_check=True)
    facts = json.loads(file.metadata_props[0].value)
    assert proof.network is not None
    assert facts["network"] == proof.network.digest
    assert facts["radius"] == proof.radius.tolist()
    values = onnxruntime.InferenceSession(tmp_path / "net.onnx").run(None, {"pixels": x.numpy()})[0]
    torch.testing.assert_close(torch.from_numpy(values), model(x).detach())


def test_weights_of_neighbors_are_not_merged_in_the_exported_file(tmp_path: Path) -> None:
    """onnxruntime folds Conv and Mul, whose product underflows, but not across a Reshape."""
    onnxruntime = pytest.importorskip("onnxruntime")
    norm = nn.BatchNorm2d(1, affine=False, eps=0.0)
    norm.running_var.fill_(1e38)
    model = nn.Sequential(nn.Conv2d(1, 1, 1, bias=False), norm, nn.Flatten(), nn.Linear(1, 2)).eval()
    with torch.no_grad():
        model[0].weight.fill_(1e-25)
        model[3].weight.copy_(torch.tensor([[1e38], [0.0]]))
        model[3].bias.zero_()
    x = torch.rand(3, 1, 1, 1)
    try:
        proof = radii.certify(model, x, "crown", "linf:0.01")
    except InputError:
        return
    proof.save(tmp_path / "net.onnx", x)
    assert proof.network is not None
    values = onnxruntime.InferenceSession(tmp_path / "net.onnx").run(None, {"pixels": x.numpy()})[0]
    torch.testing.assert_close(torch.from_numpy(values), proof.network(x))


def test_damaged_and_foreign_files_end_with_a_sentence(tmp_path: Path) -> None:
    from radii.models.io.weights import read_tensors, write_tensors

    x = inputs()
    proof = radii.certify(network(), x, "crown", "linf:0.01")
    with pytest.raises(InputError, match="12 inputs, got 3"):
        proof.save(tmp_path / "a.onnx", x[:3])
    with pytest.raises(InputError, match=r"\.safetensors or \.onnx"):
        proof.save(tmp_path / "a.pt", x)
    with pytest.raises(InputError, match="not the inputs that were certified"):
        proof.save(tmp_path / "a.onnx", 1 - x.flip(0))
    proof.save(tmp_path / "a.safetensors", x)
    tensors, facts = read_tensors(tmp_path / "a.safetensors")
    for name, value in (("head", "relu"), ("structure", {"steps": []}), ("network", "0"), ("structure", None)):
        write_tensors(tmp_path / "b.safetensors", tensors, facts | {name: value})
        with pytest.raises(InputError, match=r"certificate of radii|damaged"):
            read_certificate(tmp_path / "b.safetensors")
    write_tensors(tmp_path / "b.safetensors", {"weight": x}, {})
    with pytest.raises(InputError, match="holds no certificate"):
        read_certificate(tmp_path / "b.safetensors")


class ByBatch(nn.Module):
    """Another class in batches of one size, which random batches do not have."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.net, self.size = network(), size

    def forward(self, x: Tensor) -> Tensor:
        y = self.net(x)
        return -y if len(x) == self.size else y


@pytest.mark.parametrize("size", [1, 7, 12])
def test_a_model_that_differs_is_refused_with_the_first_input(size: int) -> None:
    with pytest.raises(InputError, match=r"input 0|does not do what its layers do"):
        radii.certify(ByBatch(size).eval(), inputs(), "crown", "linf:0.01")


def test_structures_of_strangers_run_no_code() -> None:
    program = radii.certify(network(), inputs(), "crown", "linf:0.01").network
    assert program is not None
    evil = json.loads(json.dumps(program.structure))
    evil["steps"][0][1]["part"] = "__import__"
    with pytest.raises(InputError, match="no network of radii"):
        Frozen.of_parts(evil, list(program.buffers()), "")
