"""The example package is installed as a user installs it, and everything that it adds is used by name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAM = """
import torch
import radii
from radii.attacks.suite import members
from radii.runs.component_specs import DataSpec
from radii.runs.planning import train
from radii.runs.step import from_json
from radii.studies.runner import find_study
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
scores = radii.evaluate(trained.model, x, y, "linf:0.3", suite="brightness-first", radii=False, certificate="nothing")
assert scores.certificate_method == "nothing"
assert find_study("example", store).title == "Inverting moves no class closer"
assert find_study("radii_example:STUDY", store).name == "example"
step = from_json({"step": "brightness", "revision": 1, "spec": {"data": DataSpec.of("digits+invert").model_dump()}})
measured = store.ensure(step)
assert measured.result == measured.read(type(step).Result)
assert list(measured.result.by_class) == list(range(10))
assert measured.result.headline() == f"mean {data.test.x.mean():.3f}"
run = trained.run.id
for words in (
    ["attack", run, "digits+invert", "--threat", "linf:0.1", "--attack", "radii_example:Brightness", "--points", "10"],
    ["certify", run, "digits+invert", "--threat", "linf:0.1", "--method", "nothing", "--points", "10"],
    ["certify", "--help"],
    ["evaluate", run, "digits+invert", "--threat", "linf:0.1", "--suite", "brightness-first", "--points", "10"],
    ["study", "run", "example"],
    ["runs"],
):
    assert guarded(lambda words=words: app(words, standalone_mode=False)) == 0, words
"""


def installed(package: Path, site: Path) -> None:
    """What an installer leaves behind: the package, and its entry points beside it; without the minute of a build."""
    shutil.copytree(package / "src", site)
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    facts = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = (
        "\n".join([f"[{group}]", *(f"{name} = {place}" for name, place in entries.items())])
        for group, entries in project["entry-points"].items()
    )
    (facts / "entry_points.txt").write_text("\n".join(groups))


def test_a_package_adds_one_of_each_kind(tmp_path: Path) -> None:
    installed(ROOT / "examples" / "plugin", tmp_path / "site")
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
    assert "nothing, or an import path" in " ".join(done.stdout.replace("│", " ").split())
