"""A small network as ONNX, and one property that holds, ``unsat``, and one that fails, ``sat``."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from radii.models.io.export import export


def write_files(folder: Path) -> Path:
    """Write ``net.onnx``, ``holds.vnnlib`` and ``fails.vnnlib``."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1)).eval()
    export(model, folder / "net.onnx", (2,), certificate=False)
    head = "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)"
    bounds = "(assert (>= X_0 0))(assert (<= X_0 1))(assert (= X_1 0.5))"
    (folder / "holds.vnnlib").write_text(f"{head}{bounds}(assert (>= Y_0 1000))")
    (folder / "fails.vnnlib").write_text(f"{head}{bounds}(assert (<= Y_0 1000))")
    return folder
