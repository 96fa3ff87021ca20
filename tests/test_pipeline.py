"""The files by which teams use radii in their builds: their words are true and their scripts work."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install '.[dev]'")

CHECKOUT = Path(__file__).parents[1]
SCRIPT = CHECKOUT / "examples" / "ci" / "gate.sh"
SHELL = sorted([*CHECKOUT.glob("examples/*/*.sh"), CHECKOUT / ".ci" / "run", CHECKOUT / "tests" / "matrix.sh"])
WORKFLOWS = [
    CHECKOUT / "action.yml",
    *sorted(CHECKOUT.glob(".github/workflows/*.yml")),
    *sorted(CHECKOUT.glob("docs/examples/*.yml")),
]
FAKE = """#!{python}
import json, os, sys
with open(os.environ["ASKED"], "w") as file:
    json.dump(sys.argv[1:], file)
words = sys.argv[1:]
for option in ("--json", "--markdown"):
    with open(words[words.index(option) + 1], "w") as file:
        file.write("what came out")
sys.exit(int(os.environ.get("CODE", "0")))
"""


def content(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def commands(node: Any) -> Iterator[str]:
    """The scripts of a workflow."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "run" and isinstance(value, str):
                yield value
            elif key == "script":
                yield "\n".join(value)
            else:
                yield from commands(value)
    elif isinstance(node, list):
        for value in node:
            yield from commands(value)


def gate(folder: Path, code: int = 0, **words: str) -> tuple[int, list[str]]:
    """The exit code of the script with a radii that only remembers what it was asked, and its words."""
    (folder / "bin").mkdir(exist_ok=True)
    fake = folder / "bin" / "radii"
    fake.write_text(FAKE.format(python=sys.executable))
    fake.chmod(0o755)
    own = {"PATH": f"{fake.parent}:{os.environ['PATH']}", "ASKED": str(folder / "asked.json"), "CODE": str(code)}
    done = subprocess.run(["bash", str(SCRIPT)], cwd=folder, env=os.environ | own | words, check=False)
    return done.returncode, json.loads((folder / "asked.json").read_text())


def test_the_script_hands_words_on_as_they_are(tmp_path: Path) -> None:
    """Names of branches, models and folders are written by strangers."""
    evil = "my $(touch evil) model; touch evil `touch evil`.onnx"
    require = "clean>=0.9\n\n   robust(linf:2/255)>=0.6  \r\n$(touch evil)"
    code, words = gate(tmp_path, MODEL=evil, DATASET="photos with space/", REQUIRE=require, SEED="7", PULL_REQUEST="12")
    assert code == 0
    assert words[:3] == ["gate", evil, "photos with space/"]
    asked = [words[k + 1] for k, word in enumerate(words) if word == "--require"]
    assert asked == ["clean>=0.9", "robust(linf:2/255)>=0.6", "$(touch evil)"]
    assert words[words.index("--seed") + 1] == "7"
    assert not {"--suite", "--points", "--weights", "--against"} & set(words)
    assert not (tmp_path / "evil").exists()
    assert (tmp_path / "radii-gate" / "pull-request").read_text() == "12\n"


def test_only_a_pass_becomes_the_result_to_compare_with(tmp_path: Path) -> None:
    words = {"MODEL": "m.onnx", "DATASET": "digits", "REQUIRE": "clean>=0.9", "SUITE": "fast", "POINTS": "50"}
    output, summary = tmp_path / "output", tmp_path / "summary"
    files = {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary)}
    code, asked = gate(tmp_path, code=1, **words, **files)
    assert code == 1
    assert "passed=false" in output.read_text()
    assert summary.read_text() == "what came out"
    assert not (tmp_path / "radii-gate" / "baseline.json").exists()
    assert asked[asked.index("--suite") + 1] == "fast"
    assert asked[asked.index("--points") + 1] == "50"
    assert gate(tmp_path, **words)[0] == 0
    assert "--against" in gate(tmp_path, **words)[1]


def test_the_script_with_radii_itself(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import torch\n\n\ndef network(input_shape, classes):\n    torch.manual_seed(0)\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))\n"
    )
    place = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    words = {"MODEL": "own.py:network", "DATASET": "digits", "REQUIRE": "clean>=0.9", "POINTS": "40"}
    done = subprocess.run(
        ["bash", str(SCRIPT)], cwd=tmp_path, env=os.environ | place | words, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert (tmp_path / "radii-gate" / "comment.md").read_text().startswith("### radii gate: failed")
    assert json.loads((tmp_path / "radii-gate" / "gate.json").read_text())["version"] == 1


def test_an_action_uses_the_inputs_that_it_declares() -> None:
    action = content(CHECKOUT / "action.yml")
    text = (CHECKOUT / "action.yml").read_text()
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(action["inputs"])
    assert all("description" in each for each in (*action["inputs"].values(), *action["outputs"].values()))
    assert all("shell" in step for step in action["runs"]["steps"] if "run" in step)
    example = content(CHECKOUT / "docs" / "examples" / "github-gate.yml")
    given = example["jobs"]["gate"]["steps"][-1]["with"]
    needed = {name for name, each in action["inputs"].items() if each.get("required")}
    assert needed <= set(given) <= set(action["inputs"])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_no_word_of_an_event_is_part_of_a_script(path: Path) -> None:
    """A title or a branch in a script would be run as code; they come in by the environment."""
    for script in commands(content(path)):
        assert "${{" not in script, script


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_scripts_of_workflows_are_clean(path: Path, tmp_path: Path) -> None:
    checker = tool("shellcheck")
    for script in commands(content(path)):
        (tmp_path / "script").write_text(script)
        done = subprocess.run(
            [checker, "--shell=bash", tmp_path / "script"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout


def tool(name: str) -> str:
    place = shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if place is None:
        pytest.skip(f"{name} is not installed: pip install '.[dev]'")
    return place


def test_shell_scripts_are_clean() -> None:
    done = subprocess.run([tool("shellcheck"), *SHELL], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_image_is_built_from_what_is_here() -> None:
    text = (CHECKOUT / "Dockerfile").read_text()
    copied = [word for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE) for word in line.split()]
    allowed = [line[1:] for line in (CHECKOUT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert sorted(copied) == sorted(allowed)
    assert all((CHECKOUT / name).exists() for name in copied)
    install = re.search(r"^pip install (torch\S* --index-url \S+)", (CHECKOUT / "README.md").read_text(), re.MULTILINE)
    assert install is not None
    assert install[1] in text
    assert "USER 1000" in text
    done = subprocess.run([tool("hadolint"), CHECKOUT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.heavy  # it builds a wheel
def test_what_the_image_copies_is_a_whole_package(tmp_path: Path) -> None:
    """The command of the image, without its network: the wheel of the copied files has all that a checkout has."""
    text = (CHECKOUT / "Dockerfile").read_text()
    assert 'pip install -c constraints.txt ".[onnx]"' in text
    for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE):
        for name in line.split():
            if (CHECKOUT / name).is_dir():
                shutil.copytree(
                    CHECKOUT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
                )
            else:
                shutil.copy(CHECKOUT / name, tmp_path / name)
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet", "-w", "wheels", "."]
    done = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "wheels").glob("radii-*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    tracked = {
        str(path.relative_to(CHECKOUT / "src"))
        for path in (CHECKOUT / "src").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and ".egg-info" not in str(path)
    }
    assert tracked <= inside, sorted(tracked - inside)[:5]


def test_every_extra_is_named_where_people_install() -> None:
    extras = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    text = (CHECKOUT / "docs" / "start" / "install.md").read_text()
    assert [name for name in extras if f"`{name}`" not in text] == []


def test_the_citation_is_of_this_version() -> None:
    citation = content(CHECKOUT / "CITATION.cff")
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert citation["version"] == project["version"] == version("radii")
    assert citation["license"] == project["license"]


def test_hooks_and_the_makefile_check_the_same() -> None:
    hooks = content(CHECKOUT / ".pre-commit-config.yaml")["repos"][0]["hooks"]
    lint = (CHECKOUT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    for hook in hooks:
        words = [word for word in hook["entry"].removeprefix(".venv").split() if word != "--force-exclude"]
        assert f"$(BIN){' '.join(words).removeprefix('/bin')}" in lint
    assert lint.count("$(BIN)") == len(hooks)
