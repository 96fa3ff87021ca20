"""No file runs code that was not trusted: study files, bundles, exported programs, the folder one works in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from radii.errors import InputError
from radii.models import MODELS
from radii.registry import check_trust
from radii.runs.planning import train
from radii.training.objectives import METHODS
from radii.training.schedule import Recipe

MINE = """
from pathlib import Path
from torch import nn
Path("imported").touch()

def net(input_shape, classes, wide: int = 1):
    Path("called").touch()
    return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))

def text(input_shape, classes):
    return "no module"

class Quiet:
    def loss(self, model, x, y, moment):
        import torch
        from radii.training.objectives.objective import Loss
        Path("called").touch()
        return Loss(torch.nn.functional.cross_entropy(model(x), y), model(x))
"""
STUDY = """
name = "stranger"
data = ["digits"]
[settings]
epochs = 1
[[model]]
name = "{model}"
[[method]]
name = "{method}"
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a user's module, in which commands are run as the installed program runs them."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("mynets.py").write_text(MINE)
    yield tmp_path / "here"  # type: ignore[misc]
    sys.modules.pop("mynets", None)
    sys.path[:] = [entry for entry in sys.path if entry != str(tmp_path / "here")]


def command(*words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """The program as it is installed: the current folder is not on its path."""
    program = [sys.executable, "-P", "-c", "from radii.cli.main import run; run()", *map(str, words)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"} | variables
    return subprocess.run(program, capture_output=True, text=True, env=environment, timeout=300, check=False)


@pytest.mark.parametrize("action", ["run --dry-run", "run", "show"])
@pytest.mark.parametrize(
    ("model", "method"),
    [
        ("mlp", "os:system"),
        ("mlp", "mynets:Quiet"),
        ("mynets:net", "natural"),
        ("subprocess:getoutput", "natural"),
        ("builtins:exec", "builtins:eval"),
    ],
)
def test_a_study_file_runs_nothing_that_was_not_trusted(
    here: Path, radii: Callable, action: str, model: str, method: str
) -> None:
    text = STUDY.format(model=model, method=method)
    Path("study.toml").write_text(text + 'command = "touch exploded"\n' if method == "os:system" else text)
    verb, *flags = action.split()
    outcome = radii("study", verb, "study.toml", *flags)
    assert outcome.code == 2
    untrusted = model if ":" in model else method
    assert (
        f"wants to import '{untrusted}', which runs code. If you trust it, say so: --trust {untrusted}" in outcome.err
    )
    assert not list(here.glob("[ice]*ed"))  # neither imported nor called nor exploded


@pytest.mark.parametrize(
    "path", ["os:system", "subprocess:getoutput", "builtins:exec", "shutil:rmtree", "os.path:join"]
)
def test_python_itself_is_no_model_and_no_method_even_if_trusted(here: Path, radii: Callable, path: str) -> None:
    for model, method in ((path, "natural"), ("mlp", path)):
        Path("study.toml").write_text(STUDY.format(model=model, method=method))
        outcome = radii("study", "run", "study.toml", "--dry-run", "--trust", path)
        assert outcome.code == 2
        assert "is a part of Python itself" in outcome.err


def test_a_trusted_study_file_is_not_called_before_it_runs(here: Path, radii: Callable) -> None:
    Path("study.toml").write_text(STUDY.format(model="mynets:net", method="mynets:Quiet"))
    trust = ("--trust", "mynets:net", "--trust", "mynets:Quiet")
    planned = radii("study", "run", "study.toml", "--dry-run", *trust)
    assert planned.code == 0, planned.err
    assert not (here / "called").exists()
    done = command("study", "run", "study.toml", "--workers", 1, *trust)
    assert done.returncode == 0, done.stderr
    assert (here / "called").exists()
    again = radii("study", "resume")
    assert again.code == 2
    assert "--trust mynets:net" in again.err
    assert radii("study", "list").code == 0
    assert radii("study", "show", "stranger", *trust).code == 0


def test_factories_return_modules_and_methods_are_objectives(here: Path, radii: Callable) -> None:
    wrong = radii("train", "digits", "epochs=1", "--model", "mynets:text")
    assert (wrong.code, "must return a torch.nn.modules.module.Module, got str" in wrong.err) == (2, True)
    with pytest.raises(InputError, match="must be a"):
        MODELS.factory("mynets:Quiet")
    with pytest.raises(InputError, match="must be a"):
        METHODS.factory("mynets:Path")


def test_a_network_of_ones_own_is_evaluated_certified_and_exported(here: Path, radii: Callable) -> None:
    trained = radii("train", "digits", "epochs=1", "--model", "mynets:net", "--json", "-")
    assert trained.code == 0, trained.err
    run = json.loads(trained.out)["run"]
    evaluation = ("evaluate", run, "digits", "--threat", "l2:0.1", "--points", 10, "--suite", "pgd")
    refused = radii(*evaluation)
    assert refused.code == 2
    assert "--trust mynets:net" in refused.err
    for words in (
        evaluation,
        ("attack", run, "digits", "--threat", "l2:0.1", "--points", 10, "--attack", "pgd"),
        ("certify", run, "digits", "--points", 5),
        ("export", run, "mine.pt2"),
    ):
        assert radii(*words).code == 2
        outcome = radii(*words, "--trust", "mynets:net")
        assert outcome.code == 0, outcome.err


def test_trust_is_for_one_path() -> None:
    check_trust("lenet5", (), "a file")
    check_trust("a.b:c", ("a.b:c",), "a file")
    for trust in ((), ("a.b:d",), ("a.b",), ("a.b:cc",), "a.b:c,"):
        with pytest.raises(InputError, match=r"a file wants to import 'a\.b:c'"):
            check_trust("a.b:c", tuple(trust), "a file")


SHADOWS = (
    "altair",
    "cProfile",
    "queue",
    "json",
    "numpy",
    "torch",
    "socket",
    "pickle",
    "multiprocessing",
    "PIL",
    "struct",
)


def test_the_folder_in_which_one_works_takes_over_no_import(here: Path) -> None:
    """Files of the names of modules, in the folder of downloaded data or of a user's own model."""
    for name in SHADOWS:
        Path(f"{name}.py").write_text(f"open('{here}/hijacked', 'a').write('{name} ')\nraise SystemExit(3)\n")
    for words in (
        ("train", "digits", "epochs=1", "--model", "mynets:net"),
        ("lr-search", "digits", "epochs=1", "--model", "mlp", "--trials", 2, "--workers", 2),
        ("audit", "digits", "--json", "a.json", "--plot", "a.svg"),
    ):
        outcome = command(*words)
        hijacked = (here / "hijacked").read_text() if (here / "hijacked").exists() else ""
        assert (outcome.returncode, hijacked) == (0, ""), (words, outcome.stderr)


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_workers_of_ray_import_nothing_from_the_folder_in_which_one_works(here: Path) -> None:
    """Ray puts the current folder first on the path of its workers unless it is told otherwise."""
    pytest.importorskip("ray")
    for name in ("torch", "scipy", "safetensors"):
        Path(f"{name}.py").write_text(f"open('{here}/hijacked', 'a').write('{name} ')\nraise SystemExit(3)\n")
    Path("study.toml").write_text(STUDY.format(model="mlp", method="natural"))
    words = ("study", "run", "study.toml", "--executor", "ray:local", "--workers", 1)
    outcome = command(*words, RADII_RUNS=str(here / "runs"))
    assert not (here / "hijacked").exists(), (here / "hijacked").read_text()
    assert outcome.returncode == 0, outcome.stderr


def test_rays_workers_get_only_folders_that_the_program_imports_from_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    from radii.runs.executors._ray_cluster import OwnPath

    monkeypatch.setattr(sys, "path", ["/own/script", "/python/lib"])
    path = OwnPath()
    path.extend(["/own/script", "/downloaded/data"])
    assert path == ["/own/script"]


def test_the_current_folder_joins_the_path_last_and_only_for_an_own_import_path(here: Path) -> None:
    before = list(sys.path)
    train("digits", "mlp", recipe=Recipe(epochs=1))
    assert sys.path == before
    train("digits", "mynets:net", recipe=Recipe(epochs=1))
    assert sys.path == [*before, str(here)] or "" in before


def test_a_bundle_with_another_factory_is_not_trusted_by_the_step(here: Path, radii: Callable) -> None:
    """A card that was changed to name other code is refused although its own path is trusted."""
    Path("mynets2.py").write_text(MINE.replace('"imported"', '"exploded"'))
    run = train("digits", "mynets:net", recipe=Recipe(epochs=1)).run
    shutil.copytree(run.folder, "bundle")
    card = json.loads(Path("bundle/model.json").read_text())
    Path("bundle/model.json").write_text(json.dumps(card | {"name": "mynets2:net"}))
    outcome = radii("certify", "bundle", "digits", "--points", 5, "--trust", "mynets:net")
    assert outcome.code == 2
    assert "--trust mynets2:net" in outcome.err
    assert not Path("exploded").exists()
