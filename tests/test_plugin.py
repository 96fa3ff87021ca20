"""The example package is installed as a user installs it, and everything that it adds is used by name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAM = """
import torch
import radii
from radii.attacks.suite import members
from radii.runs.planning import train
from radii.studies.study_lookup import find_study
from radii.cli.main import app, guarded

data = radii.load("digits+invert")
assert (data.test.x == 1 - radii.load("digits").test.x).all()
store = radii.Store.default()
trained = train("digits+invert", "two-layers", "label-smoothing", model_arguments={"width": 16})
x, y = data.test.tensors(range(40))
assert radii.attack(trained.model, x, y, "linf:0.3", name="brightness").x_adv.shape == x.shape
assert [member.name for member in members("brightness-first")] == ["brightness", "square"]
scores = radii.evaluate(trained.model, x, y, "linf:0.3", suite="brightness-first", radii=False)
assert set(scores.passes) == {"brightness", "square"}
assert radii.certify(trained.model, x, "nothing", "linf:0.1").method == "nothing"
assert find_study("example", store).title == "Inverting moves no class closer"
assert find_study("radii_example:STUDY", store).name == "example"
run = trained.run.id
for words in (
    ["attack", run, "digits+invert", "--threat", "linf:0.1", "--attack", "radii_example:Brightness", "--points", "10"],
    ["certify", run, "digits+invert", "--threat", "linf:0.1", "--method", "nothing", "--points", "10"],
    ["evaluate", run, "digits+invert", "--threat", "linf:0.1", "--suite", "brightness-first", "--points", "10"],
    ["study", "run", "example"],
):
    assert guarded(lambda words=words: app(words, standalone_mode=False)) == 0, words
"""


def test_a_package_adds_one_of_each_kind(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "plugin", tmp_path / "plugin")
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        *offline,
        "--target",
        str(tmp_path / "site"),
        str(tmp_path / "plugin"),
    ]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    paths = os.pathsep.join([str(tmp_path / "site"), *sys.path])
    variables = os.environ | {"PYTHONPATH": paths, "RADII_RUNS": str(tmp_path / "runs"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=variables,
        capture_output=True,
        text=True,
        timeout=280,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
