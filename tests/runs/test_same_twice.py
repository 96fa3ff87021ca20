"""The same step gives the same bits: in fresh processes, whatever was set or imported before, under any executor."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from radii.errors import InputError
from radii.files import MANIFEST
from radii.process import checkpoint_seconds, step_threads
from radii.runs.planning import data_spec, train_step
from radii.runs.store import Store

PROGRAM = """
import sys
{before}
from pathlib import Path
from radii.runs.executors import Inline, Observer, Processes, run_steps
from radii.runs.planning import data_spec, train_step
from radii.runs.steps import AuditStep, Certify, Evaluate
from radii.runs.store import Store
from radii.threat import Ball

if __name__ == "__main__":
    store = Store(Path(sys.argv[1]))
    data = data_spec("digits", store)
    plain = train_step(data, "lenet5", "natural", {{"model": {{"widen": 0.125}}, "epochs": 1}})
    proved = train_step(data, "lipschitz-mlp", "natural", {{"epochs": 1}})
    steps = [
        Evaluate(model=plain, data=data, ball=Ball.parse("l2:0.5"), suite="fast", points=20),
        Certify(model=proved, data=data, radii=(0.1, 0.2), points=50),
        AuditStep(data=data, norm="l2", epsilon=0.5),
    ]
    {run}
"""
BEFORE = {
    "nothing": "",
    "other settings": """
import torch
torch.set_num_threads(2)
torch.set_float32_matmul_precision("medium")
torch.set_default_dtype(torch.float64)
torch.use_deterministic_algorithms(True, warn_only=True)
torch.backends.mkldnn.enabled = False
torch.manual_seed(7)
""",
    "other imports": "import sklearn.datasets, numba, scipy.optimize, onnxruntime, matplotlib",
}
RUN = {
    "inline": "Inline().run(steps, store, Observer())",
    "one": "run_steps(steps, store, workers=0)",
    "processes": "run_steps(steps, store, workers=2)",
}


def bits(root: Path) -> dict[str, str]:
    """A digest of all that every run found; times and the environment are not part of it."""
    found = {}
    for folder in sorted((root / "runs").iterdir()):
        state = hashlib.sha256()
        for path in sorted(folder.iterdir()):
            if path.name not in ("env.json", MANIFEST):
                content = path.read_bytes()
                if path.name == "result.json":
                    content = json.dumps(_timeless(json.loads(content))).encode()
                state.update(content)
        found[folder.name] = state.hexdigest()
    return found


def _timeless(content: object) -> object:
    if isinstance(content, dict):
        return {key: _timeless(value) for key, value in content.items() if key != "seconds"}
    return [_timeless(item) for item in content] if isinstance(content, list) else content


def fresh(folder: Path, before: str, run: str) -> dict[str, str]:
    """The digests after the program in a process of its own."""
    program = folder / "program.py"
    program.write_text(PROGRAM.format(before=BEFORE[before], run=RUN[run]))
    environment = {key: value for key, value in os.environ.items() if not key.endswith("NUM_THREADS")}
    command = [sys.executable, str(program), str(folder / "store")]
    subprocess.run(command, env=environment | {"PYTHONPATH": os.pathsep.join(sys.path)}, check=True, timeout=500)
    return bits(folder / "store")


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("known")
        patch.setenv("RADII_CACHE", str(folder / "cache"))
        return fresh(folder, "nothing", "one")


@pytest.mark.parametrize(
    ("before", "run"),
    [("nothing", "inline"), ("other settings", "one"), ("other imports", "one"), ("nothing", "processes")],
)
def test_fresh_processes_give_equal_bits(known: dict[str, str], tmp_path: Path, before: str, run: str) -> None:
    if before == "other imports":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("matplotlib")
    assert len(known) == 5
    assert fresh(tmp_path, before, run) == known


def test_threads_are_one_unless_the_user_says_so_and_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "store")
    step = train_step(data_spec("digits", store), "mlp", "natural", {"epochs": 1})
    assert store.ensure(step).environment["threads"] == 1
    store.delete(store.own(step.run_id))
    monkeypatch.setenv("RADII_THREADS", "2")
    found = store.ensure(step).environment
    assert found["threads"] == 2
    assert {"mkldnn", "processor", "matmul_precision", "versions"} <= found.keys()


@pytest.mark.parametrize("text", ["abc", "-1", "nan", "inf", "1e999", "1,5"])
def test_a_wrong_number_of_seconds_is_a_sentence(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("RADII_CHECKPOINT_SECONDS", text)
    with pytest.raises(InputError, match="RADII_CHECKPOINT_SECONDS must be a number of seconds"):
        checkpoint_seconds()


@pytest.mark.parametrize("text", ["abc", "0", "-2", "1.5", "\u00b2", "99999999"])
def test_a_wrong_number_of_threads_is_a_sentence(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("RADII_THREADS", text)
    with pytest.raises(InputError, match="RADII_THREADS must be a number of threads"):
        step_threads()
