"""Exported models: the same outputs, no constrained layers inside, and enough to certify without torch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from radii.certificates.lipschitz import certify
from radii.errors import InputError
from radii.models.classifier import Classifier
from radii.models.io.export import export
from radii.models.io.exported_programs import load_pt2
from radii.models.lipschitz._folding import fold
from radii.models.zoo.lipschitz_networks import LipschitzConvNet


def network(layer: str = "aol") -> nn.Module:
    torch.manual_seed(0)
    net = LipschitzConvNet((1, 8, 8), 4, width=4, layer=layer, depth=1)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    model = Classifier(net, mean=0.3)
    model(torch.rand(2, 1, 8, 8))
    return model.eval()


X = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(1))


def test_a_folded_aol_network_is_plain() -> None:
    plain = fold(network(), (1, 8, 8))
    kinds = {type(part).__name__ for part in plain}
    assert kinds <= {"Normalization", "Conv2d", "Linear", "MaxMin", "FirstChannels", "PixelUnshuffle", "Flatten"}
    assert plain[1].in_channels == 1  # channels of zeros are cut out
    torch.testing.assert_close(plain(X), network()(X), rtol=0, atol=1e-6)


@pytest.mark.parametrize("layer", ["aol", "cpl", "orthogonal"])
def test_pt2(layer: str, tmp_path: Path) -> None:
    model = network(layer)
    card = export(model, tmp_path / "model.pt2", (1, 8, 8), ("a", "b", "c", "d"))
    loaded = load_pt2(tmp_path / "model.pt2", trust=[str(tmp_path / "model.pt2")])
    torch.testing.assert_close(loaded(X), model(X), rtol=0, atol=1e-6)
    assert loaded(X[:1]).shape == (1, 4)  # any batch size
    files = {"radii.json": ""}
    torch.export.load(tmp_path / "model.pt2", extra_files=files)
    assert json.loads(files["radii.json"]) == card


@pytest.mark.parametrize("layer", ["aol", "cpl"])
@pytest.mark.parametrize("allowance", ["evaluation_error", "estimated_evaluation_error"])
def test_a_certified_prediction_without_torch(layer: str, allowance: str, tmp_path: Path) -> None:
    """The runner of the docs: onnxruntime and numpy."""
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    model = network(layer)
    export(model, tmp_path / "model.onnx", (1, 8, 8), ("a", "b", "c", "d"))
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    card = json.loads(session.get_modelmeta().custom_metadata_map["radii"])
    logits = session.run(None, {"pixels": X.numpy()})[0].astype(np.float64)
    np.testing.assert_allclose(logits, model(X).detach().numpy(), rtol=0, atol=1e-6)
    known = card["certificate"]
    top = logits.argmax(1)
    gap = logits.max(1, keepdims=True) - logits - 2 * known[allowance]
    ratio = gap / np.maximum(known["features"] * np.array(known["pairs"])[top], 1e-300)
    ratio[np.arange(len(top)), top] = np.inf
    radius = np.maximum(ratio.min(1), 0)
    here = certify(model, X, arithmetic="exact", evaluation_error=known[allowance])
    np.testing.assert_allclose(radius, here.radius.numpy(), rtol=0, atol=1e-5)
    assert (top == here.prediction.numpy()).all()
    assert (radius <= certify(model, X, arithmetic="exact").radius.numpy()).all()
    assert card["classes"] == ["a", "b", "c", "d"]


def test_the_error_of_float32_belongs_to_a_box(tmp_path: Path) -> None:
    unit = export(network(), tmp_path / "unit.pt2", (1, 8, 8))["certificate"]
    wide = export(network(), tmp_path / "wide.pt2", (1, 8, 8), box=(-100.0, 100.0))["certificate"]
    assert wide["evaluation_error"] > 50 * unit["evaluation_error"]
    free = export(network(), tmp_path / "free.pt2", (1, 8, 8), box=None)["certificate"]
    assert "evaluation_error" not in free
    assert "no bound" in free["assumption"]
    long = export(nn.Sequential(nn.Linear(170_000, 2)), tmp_path / "long.pt2", (170_000,))["certificate"]
    assert "evaluation_error" not in long  # infinity is not JSON


def test_without_certificate_any_sequence_goes(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2), nn.Softmax(1))
    card = export(model, tmp_path / "model.pt2", (1, 2, 2), certificate=False)
    assert "certificate" not in card
    with pytest.raises(InputError, match="Softmax"):
        export(model, tmp_path / "model.pt2", (1, 2, 2))


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.onnx or \.pt2"):
        export(network(), tmp_path / "model.pth", (1, 8, 8))
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        export(network(), tmp_path / "folder.onnx", (1, 8, 8))
    assert [path.name for path in tmp_path.iterdir()] == ["folder.onnx"]
