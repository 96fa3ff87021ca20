"""Networks as people have them, in every function that takes one: an answer or one sentence, never a traceback.

The caller's tensors and weights stay as they were.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import radii
from radii.data.dataset import Dataset
from radii.errors import InputError

X = torch.rand(8, 1, 4, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(8) % 3
POINTS = Dataset(X.numpy(), Y.numpy(), ("a", "b", "c"))


class Own(nn.Module):
    """A network whose forward is any function of it and its input."""

    def __init__(self, function: Callable[[Any, Tensor], Any], wide: int = 16, **tensors: Tensor) -> None:
        super().__init__()
        self.function, self.last = function, nn.Linear(wide, 3)
        for name, tensor in tensors.items():
            self.register_buffer(name, tensor)

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


def plain() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3)).eval()


def quantized() -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(plain(), {nn.Linear}, dtype=torch.qint8)


def mkldnn() -> nn.Module:
    from torch.utils import mkldnn as converter

    return converter.to_mkldnn(plain())


def scripted(how: str) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(plain(), X[:2]) if how == "trace" else torch.jit.script(plain())


def with_sparse_weight() -> nn.Module:
    model = plain()
    model[3].weight = nn.Parameter(model[3].weight.detach().to_sparse())
    return model


def pooled(*pools: nn.Module, wide: int) -> nn.Module:
    layers = [nn.Sequential(nn.Conv2d(2, 2, 3, padding=1), nn.ReLU(), pool) for pool in pools]
    return nn.Sequential(nn.Conv2d(1, 2, 1), *layers, nn.Flatten(), nn.Linear(wide, 3)).eval()


def overwritten(model: Any, x: Tensor) -> Tensor:
    hidden = torch.exp(x.flatten(1))
    other = hidden * hidden
    hidden += 1.0  # the gradient of the product needs the old value
    return model.last(other)


class ReturnsWeight(torch.autograd.Function):
    """A linear function whose gradient is, bit for bit, the memory of its weight."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(weight)
        return (x * weight.nan_to_num()).flatten(1).sum(1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        weight = ctx.saved_tensors[0]
        return (weight if len(gradient) == 1 else weight.expand(len(gradient), *weight.shape[1:])), None


MODELS: dict[str, Callable[[], nn.Module]] = {
    "object with logits": lambda: Own(lambda m, x: SimpleNamespace(logits=m.last(x.flatten(1)))),
    "dictionary of logits": lambda: Own(lambda m, x: {"logits": m.last(x.flatten(1))}),
    "tuple of logits": lambda: Own(lambda m, x: (m.last(x.flatten(1)), x)),
    "sum first": lambda: Own(lambda m, x: m.last(x.flatten(1).sum(1, keepdim=True)), 1),
    "sum without dimension": lambda: Own(lambda m, x: m.last(x.flatten(1).sum(1)[:, None]), 1),
    "mean of everything": lambda: Own(lambda m, x: m.last(x.mean((1, 2, 3))[:, None]), 1),
    "expanded": lambda: Own(lambda m, x: m.last(x[:, :, :1, :1].expand(-1, 1, 4, 4).flatten(1))),
    "one pixel": lambda: Own(lambda m, x: m.last(x[:, 0, 0, 0].unsqueeze(1)), 1),
    "unbind and stack": lambda: Own(lambda m, x: m.last(torch.stack(x.flatten(1).unbind(1), 1))),
    "split and cat": lambda: Own(lambda m, x: m.last(torch.cat(x.flatten(1).split(3, 1), 1))),
    "chunk of rows": lambda: Own(lambda m, x: m.last(torch.cat(x.flatten(1).chunk(2, 0), 0))),
    "only batches of eight": lambda: Own(lambda m, x: m.last(x.reshape(8, 16))),
    "gradient is a weight": lambda: Own(
        lambda m, x: torch.stack([ReturnsWeight.apply(x, m.weight), x.flatten(1).sum(1)], 1),
        weight=torch.full((1, 1, 4, 4), float("nan")),
    ),
    "overwritten": lambda: Own(overwritten),
    "rounded": lambda: Own(lambda m, x: m.last((x.flatten(1) * 4).round())),
    "detached": lambda: Own(lambda m, x: m.last(x.flatten(1).detach())),
    "numpy inside": lambda: Own(lambda m, x: m.last(torch.from_numpy(x.detach().numpy()).flatten(1))),
    "no parameters": lambda: nn.Sequential(nn.Flatten(), nn.AdaptiveAvgPool1d(3)).eval(),
    "traced": lambda: scripted("trace"),
    "scripted": lambda: scripted("script"),
    "quantized": quantized,
    "mkldnn layers": mkldnn,
    "mkldnn values": lambda: Own(lambda m, x: m.last(x.flatten(1).to_mkldnn().to_dense())),
    "sparse buffer": lambda: Own(
        lambda m, x: torch.sparse.mm(m.weight, x.flatten(1).T).T, weight=torch.eye(3, 16).to_sparse()
    ),
    "sparse rows": lambda: Own(lambda m, x: (m.weight @ x.flatten(1).T).T, weight=torch.eye(3, 16).to_sparse_csr()),
    "sparse values": lambda: Own(lambda m, x: m.last(x.flatten(1).to_sparse().to_dense())),
    "sparse weight": with_sparse_weight,
    "padded pools": lambda: pooled(nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(3, 2, 1), wide=2),
    "pools of a small map": lambda: pooled(nn.MaxPool2d(2), nn.MaxPool2d(2, 2, 1), wide=8),
    "pools with ceil": lambda: pooled(nn.MaxPool2d(3, 2, ceil_mode=True), nn.MaxPool2d(2), wide=2),
    "half precision": lambda: plain().half(),
    "float64 logits": lambda: Own(lambda own, x: own.last(x.flatten(1)).double()),
    "bfloat16 logits": lambda: Own(lambda own, x: own.last(x.flatten(1)).bfloat16()),
    "bfloat16": lambda: plain().bfloat16(),
    "complex": lambda: Own(lambda m, x: m.last(torch.fft.fft2(x).flatten(1).abs())),
}
CALLS: dict[str, Callable[[nn.Module], Any]] = {
    "evaluate linf": lambda m: radii.evaluate(m, X, Y, "linf:0.1", suite="fast", lipschitz=True),
    "evaluate l2": lambda m: radii.evaluate(m, X, Y, "l2:0.1", suite="pgd"),
    "gate": lambda m: radii.gate(
        m, POINTS, ["clean>=0.2", "robust(linf:0.1)>=0.2", "proved(l2:0.1)>=0.2"], suite="pgd"
    ),
    "fab": lambda m: radii.attack(m, X, Y, "l2:0.1", name="fab-t"),
    "auto": lambda m: radii.certify(m, X[:3], threat="linf:0.05"),
    "margin": lambda m: radii.certify(m, X[:3], "margin"),
    "crown": lambda m: radii.certify(m, X[:3], "crown", "l2:0.05"),
    "complete": lambda m: radii.certify(m, X[:2], "complete", "linf:0.05", seconds=1.0),
    "smoothing": lambda m: radii.certify(m, X[:1], "smoothing", sigma=0.25, samples=200),
}


@pytest.mark.parametrize("name", MODELS)
def test_an_answer_or_a_sentence(name: str) -> None:
    torch.manual_seed(0)
    model, inputs = MODELS[name](), X.clone()
    tensors = [tensor for tensor in model.buffers() if tensor.layout == torch.strided]
    before = [tensor.clone() for tensor in tensors]
    refusals = [_refusal(call, model) for call in CALLS.values()]
    assert not any("\n" in refusal for refusal in refusals)
    assert torch.equal(X, inputs)
    for tensor, value in zip(tensors, before, strict=True):
        assert torch.equal(tensor.isnan(), value.isnan())
        assert torch.equal(tensor.nan_to_num(), value.nan_to_num())


def _refusal(call: Callable[[nn.Module], Any], model: nn.Module) -> str:
    """The sentence with which a call ends; empty if it gives an answer."""
    try:
        call(model)
    except InputError as refusal:
        return str(refusal)
    return ""


WORKING = [
    ("object with logits", "gate"), ("dictionary of logits", "gate"), ("tuple of logits", "gate"),
    ("sum first", "evaluate linf"), ("sum first", "evaluate l2"), ("sum without dimension", "evaluate linf"),
    ("expanded", "evaluate linf"), ("traced", "evaluate linf"), ("scripted", "smoothing"),
    ("float64 logits", "evaluate linf"), ("float64 logits", "fab"), ("bfloat16 logits", "evaluate linf"),
    ("sparse buffer", "evaluate linf"), ("padded pools", "complete"), ("pools with ceil", "complete"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "call"), WORKING)
def test_these_work(name: str, call: str) -> None:
    torch.manual_seed(0)
    assert CALLS[call](MODELS[name]()) is not None


def test_complete_agrees_with_brute_force_on_padded_pools() -> None:
    torch.manual_seed(0)
    model, x = MODELS["padded pools"](), X[:2]
    proved = radii.certify(model, x, "complete", "linf:0.05", seconds=5.0)
    noise = torch.empty(2000, *x.shape[1:]).uniform_(-0.05, 0.05, generator=torch.Generator().manual_seed(1))
    corners = 0.05 * noise.sign()
    for row in range(len(x)):
        around = (x[row] + torch.cat([noise, corners])).clamp(0, 1)
        broken = bool((model(around).argmax(1) != proved.prediction[row]).any())
        assert not (broken and proved.radius[row] > 0)


@pytest.mark.parametrize("box", [(0.0, 1e39), (-1e300, 1e300), (0.0, 1e-46)])
@pytest.mark.parametrize("radius", [0.1, 1e30, 1e-46])
@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_boxes_and_radii_beyond_float32(box: tuple[float, float], radius: float, norm: str) -> None:
    torch.manual_seed(0)
    model, ball = plain(), radii.Ball(norm, radius, box)  # type: ignore[arg-type]
    calls: list[Callable[[nn.Module], Any]] = [
        lambda m: radii.evaluate(m, X, Y, ball, suite="fast"),
        lambda m: radii.certify(m, X[:2], "auto", ball),
        lambda m: radii.certify(m, X[:2], "complete", ball, seconds=0.5),
    ]
    for call in calls:
        assert "\n" not in _refusal(call, model)
