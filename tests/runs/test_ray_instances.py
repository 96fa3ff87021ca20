"""Instances of verification on a Ray cluster of this machine: the rows of a list, with the files sent along."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch import nn

pytest.importorskip("ray")
pytest.importorskip("onnx", reason="the extra onnx is not installed")
pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")

from radii.models.io.export import export

# In a process of its own: Ray reads the authentication mode when it is loaded, and pytest's other tests go on without.
SCRIPT = textwrap.dedent(
    """
    import sys
    from pathlib import Path

    from radii.certificates.complete.instances import read_instances, read_table, run_instances
    from radii.errors import InputError
    from radii.runs.executors.ray_instances import verified_on_ray

    folder = Path(sys.argv[1])
    entries = read_instances(folder / "list.csv")
    table = folder / "verdicts.csv"
    try:
        list(run_instances(folder, entries, table, spread=lambda left: verified_on_ray(folder, left, None, 1)))
    except InputError as error:
        sys.exit(77 if "cannot be started" in str(error) else str(error))
    for row in read_table(table):
        print(row["onnx"], row["vnnlib"], row["verdict"])
    again = list(run_instances(folder, entries[:2], table, spread=lambda left: iter(left)))
    print("again", len(again))
    """
)


@pytest.mark.heavy
def test_a_list_is_verified_on_a_cluster(tmp_path: Path) -> None:
    torch.manual_seed(0)
    export(
        nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1)).eval(),
        tmp_path / "net.onnx",
        (2,),
        certificate=False,
    )
    head = "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)"
    bounds = "(assert (>= X_0 0))(assert (<= X_0 1))(assert (= X_1 0.5))"
    (tmp_path / "holds.vnnlib").write_text(f"{head}{bounds}(assert (>= Y_0 1000))")
    (tmp_path / "fails.vnnlib").write_text(f"{head}{bounds}(assert (<= Y_0 1000))")
    lines = ["net.onnx,holds.vnnlib,20", "net.onnx,fails.vnnlib,20", "absent.onnx,fails.vnnlib,20"]
    (tmp_path / "list.csv").write_text("\n".join(lines) + "\n")
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, timeout=600)
    if done.returncode == 77:
        pytest.skip("a Ray cluster cannot be started here")
    assert done.returncode == 0, done.stderr
    said = set(done.stdout.splitlines())
    assert {"net.onnx holds.vnnlib unsat", "net.onnx fails.vnnlib sat", "absent.onnx fails.vnnlib error"} <= said
    assert "again 0" in said
