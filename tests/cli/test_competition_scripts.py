"""The three scripts of VNN-COMP, called as its harness calls them: from the folder of the benchmark."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn

pytest.importorskip("onnx", reason="the extra onnx is not installed")
pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")

from radii.models.io.export import export

SCRIPTS = Path(__file__).parents[2] / "examples" / "vnncomp"
OLDER = "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)\n" + "".join(
    f"(assert (>= X_{i} 0.1))(assert (<= X_{i} 0.9))\n" for i in range(2)
)
NEWER = """(vnnlib-version <2.0>)
(declare-network f (declare-input X float32 [1,2]) (declare-output Y float32 [1,1]))
(declare-network g (isomorphic-to f) (declare-input U float32 [1,2]) (declare-output V float32 [1,1]))
(assert (and (>= X[0,0] 0.0) (<= X[0,0] 1.0) (>= X[0,1] 0.0) (<= X[0,1] 1.0) (== X[0,0] U[0,0]) (== X[0,1] U[0,1])))
"""


def largest(model: nn.Module) -> float:
    """The largest output that ascent finds on [-2, 2]^60."""
    x = torch.rand(64, 60) * 4 - 2
    for step in range(100):
        x.requires_grad_()
        (gradient,) = torch.autograd.grad(model(x).sum(), x)
        x = (x.detach() + 0.95**step * gradient.sign()).clamp(-2, 2)
    return float(model(x).detach().max())


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A benchmark's folder: sums of two inputs and of two halves, a wide network, and properties."""
    folder = tmp_path_factory.mktemp("benchmark")
    for name in ("onnx", "vnnlib"):
        (folder / name).mkdir()
    for name, weight in (("sum", 1.0), ("half", 0.5)):
        model = nn.Sequential(nn.Linear(2, 1, bias=False), nn.ReLU())
        nn.init.constant_(model[0].weight, weight)
        export(model.eval(), folder / "onnx" / f"{name}.onnx", (2,), certificate=False)
    torch.manual_seed(0)
    hidden = (nn.Linear(120, 120), nn.ReLU(), nn.Linear(120, 120), nn.ReLU())
    wide = nn.Sequential(nn.Linear(60, 120), nn.ReLU(), *hidden, nn.Linear(120, 1)).eval()
    export(wide, folder / "onnx" / "wide.onnx", (60,), certificate=False)
    names = "".join(f"(declare-const X_{i} Real)(assert (>= X_{i} -2))(assert (<= X_{i} 2))\n" for i in range(60))
    properties = {
        "unsat": OLDER + "(assert (> Y_0 1.81))",
        "sat": OLDER + "(assert (> Y_0 1.2))",
        "bad": OLDER + "(assert (<= (* Y_0 Y_0) 1.2))",
        "hard": names + f"(declare-const Y_0 Real)(assert (>= Y_0 {1.3 * largest(wide)}))",
        "two": NEWER + "(assert (> (- Y[0,0] V[0,0]) 0.75))",
    }
    for name, text in properties.items():
        (folder / "vnnlib" / f"{name}.vnnlib").write_text(text)
    command = folder / "radii"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m radii.cli.main "$@"\n')
    command.chmod(0o755)
    return folder


def call(benchmark: Path, script: str, *arguments: str) -> int:
    environment = os.environ | {"RADII": str(benchmark / "radii")}
    command = ["/bin/bash", str(SCRIPTS / script), *arguments]
    return subprocess.run(command, cwd=benchmark, env=environment, check=False).returncode


def result(benchmark: Path, network: str, name: str, limit: str = "60") -> tuple[int, list[str]]:
    out = benchmark / f"{name}.txt"
    code = call(benchmark, "run_instance.sh", "v1", "test", network, f"vnnlib/{name}.vnnlib", str(out), limit)
    return code, out.read_text().splitlines()


def test_results_are_those_of_the_rules(benchmark: Path) -> None:
    assert call(benchmark, "prepare_instance.sh", "v1", "test", "onnx/sum.onnx", "vnnlib/unsat.vnnlib") == 0
    assert result(benchmark, "onnx/sum.onnx", "unsat") == (0, ["unsat"])
    code, lines = result(benchmark, "onnx/sum.onnx", "sat")
    assert (code, lines[0], lines[1][:6], lines[3][:5]) == (0, "sat", "((X_0 ", "(Y_0 ")
    assert "".join(lines[1:]).count("(") == "".join(lines[1:]).count(")") == 4
    assert result(benchmark, "onnx/sum.onnx", "bad") == (1, ["error"])
    assert result(benchmark, "onnx/nothing.onnx", "sat") == (1, ["error"])


def test_two_networks_are_given_as_a_list(benchmark: Path) -> None:
    """As the lists of 2026 write them; the counterexample is that of VNN-LIB 2.0."""
    networks = "[('f', 'onnx/sum.onnx'), ('g', 'onnx/half.onnx')]"
    assert call(benchmark, "prepare_instance.sh", "v1", "test", networks, "vnnlib/two.vnnlib") == 0
    code, lines = result(benchmark, networks, "two")
    assert (code, lines[0]) == (0, "sat")
    assert [lines[place] for place in (1, 4, 6, 9)] == [
        "X float32 [1,2]",
        "Y float32 [1,1]",
        "U float32 [1,2]",
        "V float32 [1,1]",
    ]
    assert lines[2:4] == lines[7:9]
    assert float(lines[5]) - float(lines[10]) > 0.75


def test_the_limit_is_kept(benchmark: Path) -> None:
    began = time.monotonic()
    code, lines = result(benchmark, "onnx/wide.onnx", "hard", "10")
    assert (code, lines) == (0, ["timeout"])
    assert time.monotonic() - began < 10


def test_another_protocol_is_refused(benchmark: Path) -> None:
    for script in ("install_tool.sh", "prepare_instance.sh", "run_instance.sh"):
        assert call(benchmark, script, "v2", "test", "a.onnx", "b.vnnlib", "out.txt", "5") == 1
