"""Bounds of sigmoid, tanh and transposed convolutions against samples of the float32 network."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from radii.bounds.provably_robust import margins
from radii.networks.operations.activations import Sigmoidal
from radii.threat import Ball

NETWORKS = {
    "sigmoid": lambda: nn.Sequential(nn.Linear(12, 20), nn.Sigmoid(), nn.Linear(20, 9), nn.Sigmoid(), nn.Linear(9, 3)),
    "tanh": lambda: nn.Sequential(nn.Linear(12, 20), nn.Tanh(), nn.Linear(20, 10), nn.ReLU(), nn.Linear(10, 3)),
    "transposed": lambda: nn.Sequential(
        nn.Unflatten(1, (3, 2, 2)), nn.ConvTranspose2d(3, 4, 3, 2, 1, output_padding=1, groups=1), nn.ReLU(),
        nn.ConvTranspose2d(4, 2, 2, dilation=2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("tanh", [False, True])
def test_the_lines_hold_the_curve(tanh: bool) -> None:
    layer = Sigmoidal("f", (0,), (1,), tanh)
    generator = torch.Generator().manual_seed(0)
    center = torch.randn(400, 1, generator=generator) * 6
    reach = torch.rand(400, 1, generator=generator) ** 3 * 12
    low, high = center - reach, center + reach
    x = low + (high - low) * torch.linspace(0, 1, 201)
    y = (torch.tanh(x.double()) if tanh else torch.sigmoid(x.double())).float()
    for sign in (1.0, -1.0):
        (back,), constant = layer.lines(torch.full((400, 1, 1), sign), [(low, high)])
        assert back is not None
        assert (sign * y.double() >= back[:, 0].double() * x.double() + constant.double()).all()
    ends = layer.interval((low, high))
    assert (ends[0] <= y).all()
    assert (y <= ends[1]).all()


@pytest.mark.parametrize("kind", list(NETWORKS))
@pytest.mark.parametrize("method", ["ibp", "crown-ibp", "crown", "alpha-crown"])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_margins_hold_for_every_sample(kind: str, method: str, norm: str) -> None:
    torch.manual_seed(1)
    model = NETWORKS[kind]().eval()
    x = torch.rand(4, 12)
    ball = Ball(norm, 0.05)  # type: ignore[arg-type]
    found = margins(model, x, ball, method)  # type: ignore[arg-type]
    label = model(x).argmax(1)
    for i in range(4):
        step = (torch.rand(3000, 12) * 2 - 1) * 0.05
        step = step if norm == "linf" else step * (0.05 / step.norm(dim=1, keepdim=True))
        with torch.no_grad():
            logits = model((x[i] + step).clamp(0, 1)).double()
        others = [c for c in range(3) if c != int(label[i])]
        least = (logits[:, [int(label[i])]] - logits[:, others]).amin(0)
        assert (found[i] <= least).all()
        if method != "ibp":
            assert (least - found[i] < 0.5).all()


@pytest.mark.parametrize("kind", list(NETWORKS))
def test_onnx_files_with_these_layers_are_decided(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    from radii.models.io.export import export
    from radii.verification.verify import verify

    torch.manual_seed(2)
    model = NETWORKS[kind]().eval()
    export(model, tmp_path / "net.onnx", (12,), certificate=False)
    names = [f"X_{i}" for i in range(12)] + [f"Y_{j}" for j in range(3)]
    text = "".join(f"(declare-const {name} Real)" for name in names)
    text += "".join(f"(assert (>= X_{i} 0.45))(assert (<= X_{i} 0.55))" for i in range(12))
    with torch.no_grad():
        top = float(model(0.45 + 0.1 * torch.rand(5000, 12))[:, 0].max())
    for limit, expected in ((top - 1e-3, "sat"), (top + 0.5, "unsat")):
        (tmp_path / "p.vnnlib").write_text(text + f"(assert (>= Y_0 {limit}))")
        assert verify(tmp_path / "net.onnx", tmp_path / "p.vnnlib", seconds=60).verdict == expected
