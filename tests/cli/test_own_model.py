"""A user's own model on the command line: each way that the guide names, and a sentence for each mistake."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from radii.data.sources import load
from radii.models.io.exported_programs import open_onnx

CODE = """
import torch
from torch import nn

def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

def sized(num_classes=1000):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))

def passing_on(**settings):
    return sized(**settings)

def shaped(input_shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(input_shape[1] * input_shape[2], classes))

def loaded():
    network = net()
    network.load_state_dict(torch.load("w.pth", weights_only=True))
    return network

def estimator():
    from sklearn.linear_model import LogisticRegression
    import radii
    data = radii.load("digits")
    return LogisticRegression(max_iter=500).fit(data.train.x.reshape(len(data.train), -1), data.train.y)

def function():
    return lambda x: x.reshape(len(x), -1) @ torch.ones(64, 10)

def greedy(width):
    return net()

def broken():
    raise RuntimeError("no such file")
"""
AT = ("--threat", "linf:8/255", "--points", "20", "--suite", "fast", "--no-certify")


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> nn.Sequential:
    """A linear classifier of the digits in ``w.pth``, and code for it in ``mine.py`` of the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(CODE)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    x, y = load("digits").train.tensors()
    optimizer = torch.optim.Adam(net.parameters(), 0.05)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    torch.save(net.state_dict(), "w.pth")
    return net


def clean(outcome: Any) -> float:
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)["clean"]["value"]


@pytest.mark.parametrize(
    "words",
    [
        ("mine.py:net", "--weights", "w.pth"),
        ("mine.py:sized", "--weights", "w.pth"),
        ("mine.py:passing_on", "--weights", "w.pth"),
        ("mine.py:shaped", "--weights", "w.pth"),
        ("mine.py:loaded",),
    ],
    ids=lambda words: words[0],
)
def test_one_line_for_an_own_model(radii: Callable[..., Any], trained: nn.Sequential, words: tuple[str, ...]) -> None:
    outcome = radii("evaluate", words[0], "digits", *words[1:], *AT, "--json", "-")
    assert clean(outcome) > 0.8


def test_normalization_on_the_command_line_is_that_of_a_classifier(
    radii: Callable[..., Any], trained: nn.Sequential
) -> None:
    shifted = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    weight, bias = trained[1].weight.data, trained[1].bias.data  # w x + b = (s w) (x - m) / s + b + w m
    shifted[1].weight.data, shifted[1].bias.data = weight * 0.25, bias + 0.5 * weight.sum(1)
    torch.save({"state_dict": {"module." + name: value for name, value in shifted.state_dict().items()}}, "n.pth")
    own = ("evaluate", "mine.py:net", "digits", "--weights", "n.pth", *AT, "--json", "-")
    assert clean(radii(*own, "--mean", "0.5", "--std", "0.25")) > 0.8
    assert clean(radii(*own)) < 0.6
    for command in ("attack", "certify"):
        assert radii(command, *own[1:5], "--threat", "linf:1/255", "--points", "5", "--mean", "0.5").code == 0


def test_estimators_and_functions_are_black_boxes(radii: Callable[..., Any], trained: nn.Sequential) -> None:
    outcome = radii("evaluate", "mine.py:estimator", "digits", "--threat", "linf:0.05", "--points", "10", "--json", "-")
    assert clean(outcome) > 0.7
    assert "suite black-box" in " ".join(outcome.err.split())
    assert "train mode" not in outcome.err
    assert radii("attack", "mine.py:estimator", "digits", "--threat", "linf:0.05", "--points", "5").code == 0
    outcome = radii("evaluate", "mine.py:function", "digits", "--threat", "linf:0.05", "--points", "10", "--json", "-")
    assert clean(outcome) == pytest.approx(0.1, abs=0.11)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("w.pth",), "holds weights only; give the network too: FILE.py:factory --weights FILE"),
        (("mine.py",), "name the function that returns the network"),
        (("mine.py:net",), "another one each time it is built: its weights are random. Give them: --weights"),
        (("mine.py:nope",), "has no attribute 'nope'"),
        (("none.py:net",), "there is no file 'none.py'"),
        (("mine.py:greedy",), "needs the argument 'width'"),
        (("mine.py:broken",), "cannot be built: RuntimeError: no such file"),
        (("mine.py:net", "--weights", "nope.pth"), "weights nope.pth do not exist"),
        (("mine.py:net", "--weights", "w.pth", "--mean", "imagnet"), "--mean must be one of imagenet, cifar10"),
        (("mine.py:net", "--weights", "w.pth", "--mean", "imagenet"), "have 3 channels, inputs of digits have 1"),
        (("mine.py:net", "--weights", "w.pth", "--std", "0"), "--std must be positive"),
        (("mine.py:net", "--weights", "w.pth", "--outputs", "x"), "--outputs must be auto, logits or probabilities"),
        (("timm:resnet18",), "timm:resnet18 needs the package timm: pip install timm"),
        (("hf:someone/something",), "needs the package transformers: pip install transformers"),
    ],
)
def test_each_mistake_is_one_sentence(
    radii: Callable[..., Any],
    trained: nn.Sequential,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    says: str,
) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    monkeypatch.setitem(sys.modules, "transformers", None)
    outcome = radii("evaluate", words[0], "digits", *words[1:], *AT)
    assert outcome.code == 2
    assert says in outcome.err
    assert "Traceback" not in outcome.err


def test_networks_of_timm(radii: Callable[..., Any], trained: nn.Sequential, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for timm: the calls are those of its documentation."""

    def create_model(name: str, pretrained: bool = False, num_classes: int = 10) -> nn.Module:
        if name != "tiny":
            raise RuntimeError(f"Unknown model ({name})")
        net = nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))
        net.pretrained_cfg = {"mean": (0.5,), "std": (0.25,)}  # type: ignore[assignment]
        if pretrained:
            net.load_state_dict(torch.load("w.pth", weights_only=True))
        return net

    timm = ModuleType("timm")
    timm.create_model = create_model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "timm", timm)
    assert clean(radii("evaluate", "timm:tiny", "digits", *AT, "--mean", "0", "--std", "1", "--json", "-")) > 0.8
    own = clean(radii("evaluate", "timm:tiny", "digits", *AT, "--json", "-"))
    said = clean(radii("evaluate", "mine.py:loaded", "digits", *AT, "--mean", "0.5", "--std", "0.25", "--json", "-"))
    assert own == said, "the normalization of the library is used"
    assert radii("evaluate", "timm:tiny", "digits", "--weights", "w.pth", *AT).code == 0
    outcome = radii("evaluate", "timm:resnet1", "digits", *AT)
    assert (outcome.code, "timm:resnet1 cannot be loaded: Unknown model (resnet1)" in outcome.err) == (2, True)


def test_networks_of_the_hub(
    radii: Callable[..., Any], trained: nn.Sequential, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for transformers; the classes of the network stand in another order than the data's."""

    class Answering(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
            self.config = SimpleNamespace(id2label={number: str(9 - number) for number in range(10)})
            state = torch.load("w.pth", weights_only=True)
            self.net.load_state_dict({name: value.flip(0) for name, value in state.items()})

        def forward(self, pixel_values: torch.Tensor) -> Any:
            return SimpleNamespace(logits=self.net(pixel_values))

    class AutoModelForImageClassification:
        @staticmethod
        def from_pretrained(name: str, *, use_safetensors: bool, trust_remote_code: bool) -> nn.Module:
            assert use_safetensors
            assert not trust_remote_code
            return Answering()

    transformers = ModuleType("transformers")
    transformers.AutoModelForImageClassification = AutoModelForImageClassification  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    Path("folder").mkdir()
    assert clean(radii("evaluate", "hf:folder", "digits", *AT, "--json", "-")) > 0.8
    Path("folder/preprocessor_config.json").write_text('{"image_mean": [3.0], "image_std": [0.25]}')
    assert clean(radii("evaluate", "hf:folder", "digits", *AT, "--json", "-")) < 0.8


def test_a_graph_of_a_fixed_batch(radii: Callable[..., Any], trained: nn.Sequential) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    torch.onnx.export(trained.eval(), (torch.rand(1, 1, 8, 8),), "one.onnx", dynamo=True, verbose=False)
    outcome = radii("evaluate", "one.onnx", "digits", "--threat", "linf:0.02", "--points", "10", "--json", "-")
    assert clean(outcome) > 0.7
    torch.onnx.export(nn.Flatten().eval(), (torch.rand(1, 1, 9, 9),), "nine.onnx", dynamo=True, verbose=False)
    outcome = radii("evaluate", "nine.onnx", "digits", "--threat", "linf:0.02", "--points", "10")
    assert outcome.code == 2
    assert "Inputs must have shape (1, 9, 9), got (1, 8, 8) instead" in outcome.err
    turned = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).eval()
    torch.onnx.export(turned, (torch.rand(1, 8, 8, 1),), "turned.onnx", dynamo=True, verbose=False)
    outcome = radii("evaluate", "turned.onnx", "digits", "--threat", "linf:0.02", "--points", "10")
    assert outcome.code == 2  # channels last: as many numbers in another order
    assert "Inputs must have shape (8, 8, 1), got (1, 8, 8) instead" in outcome.err


def test_a_graph_has_gradients_and_the_scores_of_its_original(
    radii: Callable[..., Any], trained: nn.Sequential
) -> None:
    """The same attacks on the exported network and on the network: the same robust accuracy, proofs included."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    torch.onnx.export(trained.eval(), (torch.rand(1, 1, 8, 8),), "one.onnx", dynamo=True, verbose=False)
    at = ("digits", "--threat", "linf:0.05", "--points", "40", "--suite", "fast", "--json", "-")
    graph = json.loads(radii("evaluate", "one.onnx", *at).out)
    original = json.loads(radii("evaluate", "mine.py:net", *at, "--weights", "w.pth").out)
    for key in ("clean", "robust"):
        assert graph[key] == original[key]
    assert 0 < graph["robust"]["unbroken"]["value"] < graph["clean"]["value"]


def test_a_graph_that_torch_cannot_run_is_asked(
    radii: Callable[..., Any], trained: nn.Sequential, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    network = nn.Sequential(*trained, nn.Hardshrink()).eval()
    torch.onnx.export(network, (torch.rand(1, 1, 8, 8),), "swish.onnx", dynamo=True, verbose=False)
    outcome = radii("evaluate", "swish.onnx", "digits", "--threat", "linf:0.02", "--points", "10")
    assert outcome.code == 0, outcome.err
    assert "attacked without gradients: swish.onnx: node" in caplog.text
    assert "suite black-box" in outcome.out


def test_a_model_of_other_classes(radii: Callable[..., Any], trained: nn.Sequential) -> None:
    Path("many.py").write_text(CODE.replace("nn.Linear(64, 10)", "nn.Linear(64, 1000)"))
    torch.save(nn.Sequential(nn.Flatten(), nn.Linear(64, 1000)).state_dict(), "many.pth")
    outcome = radii("evaluate", "many.py:net", "digits", "--weights", "many.pth", *AT)
    assert outcome.code == 2
    assert "knows 1000 classes, digits has 10" in outcome.err


def test_the_options_of_a_model_are_the_same_everywhere(radii: Callable[..., Any]) -> None:
    for command in ("assess", "attack", "certify", "evaluate", "export", "gate"):
        shown = radii(command, "--help").out
        assert all(option in shown for option in ("--mean", "--std", "--outputs", "--trust", "--weights")), command


def test_an_own_model_is_exported_with_its_normalization(radii: Callable[..., Any], trained: nn.Sequential) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    options = ("--weights", "w.pth", "--mean", "0.5", "--std", "0.25")
    outcome = radii("export", "mine.py:net", "n.onnx", "--on", "digits", "--no-certificate", *options)
    assert outcome.code == 0, outcome.err
    x = torch.rand(4, 1, 8, 8)
    assert torch.allclose(open_onnx(Path("n.onnx")).model(x), trained.eval()((x - 0.5) / 0.25), atol=1e-4)
    for arguments, says in (
        (("mine.py:net", "n.onnx", "--weights", "w.pth"), "needs a dataset"),
        (("n.onnx", "m.onnx"), "is exported already"),
        (("mine.py:estimator", "m.onnx", "--on", "digits"), "only answers"),
    ):
        outcome = radii("export", *arguments)
        assert outcome.code == 2
        assert says in outcome.err
