"""Imports go one way: the tree of the design, enforced over the syntax trees."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "radii"
FLOOR = {
    name: floor
    for floor, names in enumerate(
        (
            ("errors", "progress", "rounding"),
            ("atomic", "environment", "spec", "registry", "randomness", "tables", "budget"),
            ("checksums", "threat"),
            ("data",),
            ("geometry",),
            ("models",),
            ("attacks", "certificates"),
            ("training",),
            ("evaluation",),
            ("forecasting",),
            ("runs",),
            ("studies",),
            ("papers",),
            ("report",),
            ("cli",),
        )
    )
    for name in names
}
ONLY_IN = {
    "ray": "runs/executors",
    "pyarrow": "data/formats",
    "altair": "report",
    "vl_convert": "report",
    "typer": "cli",
    "rich": "cli",
}
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem != "__init__")


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} if node.module != "radii" else {f"radii.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_one_way(path: Path) -> None:
    inside = path.relative_to(SOURCE).with_suffix("").as_posix()
    room = inside.split("/")[0]
    for name in imported(path):
        top, _, rest = name.partition(".")
        if top in ONLY_IN:
            assert inside.startswith(ONLY_IN[top]), f"{inside} imports {top}, which belongs to {ONLY_IN[top]}"
        if top == "radii":
            other = rest.split(".")[0]
            assert other in FLOOR, f"{inside} imports {name}: rooms name the module they use"
            assert other == room or FLOOR[other] < FLOOR[room], f"{inside} imports upwards: {name}"


def test_a_module_is_one_idea() -> None:
    long = [str(path) for path in MODULES if len(path.read_text().splitlines()) > 400]
    assert not long, f"modules above 400 lines: {long}"


def test_no_two_modules_share_a_name() -> None:
    """Outside ``cli``, whose modules are named after their commands."""
    stems: dict[str, list[str]] = {}
    for path in MODULES:
        inside = path.relative_to(SOURCE)
        if inside.parts[0] != "cli" and path.stem != "__init__":
            stems.setdefault(path.stem, []).append(inside.as_posix())
    assert {stem: paths for stem, paths in stems.items() if len(paths) > 1} == {}


def test_no_two_public_classes_share_a_name() -> None:
    classes: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes.setdefault(node.name, []).append(path.relative_to(SOURCE).as_posix())
    assert {name: paths for name, paths in classes.items() if len(paths) > 1} == {}


COUNT = """
import sys
from radii.cli.main import app, guarded
code = guarded(lambda: app(sys.argv[1:], standalone_mode=False))
modules = sorted(name for name in sys.modules if name.split(".")[0] == "radii")
print(code, *modules, file=sys.stderr)
"""


def loaded(*words: str) -> list[str]:
    """The modules of radii that a command loads."""
    done = subprocess.run([sys.executable, "-c", COUNT, *words], check=True, capture_output=True, text=True)
    code, *modules = done.stderr.splitlines()[-1].split()
    assert code == "0", done.stderr
    return modules


def rooms(modules: list[str]) -> set[str]:
    return {name.split(".")[1] for name in modules if "." in name}


def test_runs_load_no_geometry_and_no_paper() -> None:
    code = "import radii.runs, radii.runs.step, radii.runs.steps, radii.runs.executors, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not {"geometry", "papers"} & rooms([name for name in done.stdout.split() if name.startswith("radii.")])


def test_commands_load_what_they_need() -> None:
    """Counts of radii's own modules: evaluate loaded 154 before commands were loaded one by one."""
    loaded("train", "digits", "--model", "lenet5", "model.widen=0.125", "steps=2")
    evaluated = loaded("evaluate", "train", "digits", "--threat", "linf:0.1", "--suite", "pgd", "--points", "4")
    assert not {"geometry", "papers", "studies", "report", "forecasting"} & rooms(evaluated)
    assert "radii.certificates.bounds.bounded" in evaluated, "bounds are tried"
    assert len(evaluated) <= 101, len(evaluated)
    assert len(loaded("--help")) <= 15
    assert len(loaded("claims")) <= 60
    short = ("--epochs", "1", "--points", "4", "--suite", "fast", "--workers", "0", "--no-forecast")
    assessed = loaded("assess", "digits", *short)
    assert len(assessed) <= 185, len(assessed)


def defined(module: str) -> set[str]:
    """The names that a module of radii defines or imports, stubs and submodules included."""
    place = SOURCE.parent / module.replace(".", "/")
    candidates = (place.with_suffix(".py"), place / "__init__.py", place / "__init__.pyi")
    files = [file for file in candidates if file.exists()]
    names = {path.stem for path in place.glob("*")} if place.is_dir() else set()
    for node in (node for file in files for node in ast.walk(ast.parse(file.read_text()))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return names


def test_benchmarks_examples_and_docs_import_what_exists() -> None:
    """They are not run by the tests, so a rename could break them without notice."""
    root = SOURCE.parents[1]
    absent = []
    for path in (file for folder in ("benchmarks", "examples", "docs") for file in (root / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("radii."):
                known = defined(node.module or "")
                absent += [f"{path.name}: {node.module}.{name.name}" for name in node.names if name.name not in known]
    assert absent == []
