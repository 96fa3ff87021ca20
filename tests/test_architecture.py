"""Imports go one way: the tree of the design, enforced over the syntax trees."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from made_instances import write_files

SOURCE = Path(__file__).parents[1] / "src" / "radii"
LABORATORY = SOURCE.parent / "radii_papers"
FLOOR = {
    name: floor
    for floor, names in enumerate(
        (
            ("errors", "progress"),
            ("untrusted_text", "confidence_interval"),
            ("process", "spec", "registry", "randomness", "tables", "budget", "change_kinds"),
            ("files", "feature_limits"),
            ("threat", "change_pixels"),
            ("change",),
            ("sparse_threat",),
            ("data",),
            ("geometry",),
            ("networks",),
            ("models",),
            ("attacks", "bounds"),
            ("verification",),
            ("certificates",),
            ("training",),
            ("evaluation",),
            ("forecasting",),
            ("runs",),
            ("studies",),
            ("report",),
            ("cli", "pytest_plugin"),
            ("__main__",),
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
    "pytest": "pytest_plugin",
}
PROOFS = ("bounds", "verification", "certificates")  # and attacks know none of them, which stand above
UPWARDS = {"radii.report.charts"}  # a chart in a notebook draws itself
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
            assert other != "attacks" or room not in PROOFS, f"{inside} imports {name}: proofs know no attack"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_strings_that_look_like_import_paths_go_one_way(path: Path) -> None:
    """A name in a registry is an import, too; and radii never names the laboratory, not even in a string."""
    assert LABORATORY.name not in path.read_text()
    room = path.relative_to(SOURCE).with_suffix("").parts[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for name in re.findall(r"^radii\.(\w+)(?:\.\w+)*(?::\w+)?$", node.value):
                if name in FLOOR and name != room and node.value not in UPWARDS:
                    assert FLOOR[name] < FLOOR[room], f"{path.name} names {node.value!r}, which stands above it"


def test_strings_that_look_like_import_paths_name_what_exists() -> None:
    """A module that is moved leaves no string behind: it would fail only when a user needs it."""
    absent = []
    for path in (path for package in (SOURCE, LABORATORY) for path in package.rglob("*.py")):
        strings = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
        for text in (text for text in strings if isinstance(text, str)):
            named = re.fullmatch(r"(radii(?:_papers)?\.(\w+)(?:\.\w*[a-z\d])*)(?::(\w+))?", text)
            if named is not None and (named[2] in FLOOR or text.startswith(LABORATORY.name)):
                names = defined(named[1])
                if not names or (named[3] is not None and named[3] not in names):
                    absent.append(f"{path.name}: {text}")
    assert absent == []


def room_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def test_a_module_with_an_underscore_is_read_in_its_own_room_only() -> None:
    outside = []
    for package in (SOURCE, LABORATORY):
        for path in package.rglob("*.py"):
            reader = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
            tree = ast.walk(ast.parse(path.read_text()))
            for node in (node for node in tree if isinstance(node, ast.ImportFrom) and node.module):
                for name in (f"{node.module}.{alias.name}" for alias in node.names):
                    private = [part for part in name.split(".") if part.startswith("_") and not part.startswith("__")]
                    if private and name.startswith("radii") and room_of(name) != room_of(reader):
                        outside.append(f"{reader} reads {name}")
    assert outside == []


def imported_at_once(path: Path) -> set[str]:
    """The modules of both packages that ``path`` imports while it is imported itself."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def test_no_module_imports_itself_by_a_circle() -> None:
    """A circle works or fails by the order in which a process imports, so a test of one order proves nothing."""
    files = {
        ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts): path
        for package in (SOURCE, LABORATORY)
        for path in package.rglob("*.py")
        if path.stem != "__init__"
    }
    below = {name: imported_at_once(path) & files.keys() - {name} for name, path in files.items()}
    while leaves := {name for name, names in below.items() if not names & below.keys()}:
        below = {name: names for name, names in below.items() if name not in leaves}
    assert below == {}, {name: sorted(names & below.keys()) for name, names in below.items()}


COUNT = """
import sys
from radii.cli.main import app, guarded
code = guarded(lambda: app(sys.argv[1:], standalone_mode=False))
print(code, *sorted(sys.modules), file=sys.stderr)
"""


def all_loaded(folder: Path, *words: str) -> list[str]:
    """The modules that a command loads, called in ``folder``."""
    done = subprocess.run([sys.executable, "-c", COUNT, *words], check=True, capture_output=True, text=True, cwd=folder)
    code, *modules = done.stderr.splitlines()[-1].split()
    assert code == "0", done.stderr
    return modules


def own(modules: list[str]) -> list[str]:
    """Those of radii and its laboratory."""
    return [name for name in modules if name.split(".")[0] in ("radii", LABORATORY.name)]


def loaded(folder: Path, *words: str) -> list[str]:
    """The modules of radii that a command loads, called in ``folder``."""
    return own(all_loaded(folder, *words))


def rooms(modules: list[str]) -> set[str]:
    return {name.split(".")[1] for name in modules if name.startswith("radii.")}


def test_runs_load_no_geometry_and_no_laboratory() -> None:
    code = "import radii.runs, radii.runs.step, radii.runs.steps, radii.runs.executors, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "geometry" not in rooms([name for name in done.stdout.split() if name.startswith("radii.")])
    assert LABORATORY.name not in done.stdout.split()


def test_commands_load_what_they_need(tmp_path: Path) -> None:
    """Counts of radii's own modules: evaluate loaded 154 before commands were loaded one by one."""
    loaded(tmp_path, "train", "digits", "--model", "lenet5", "model.widen=0.125", "steps=2")
    evaluated = loaded(
        tmp_path, "evaluate", "train", "digits", "--threat", "linf:0.1", "--suite", "pgd", "--points", "4"
    )
    assert not {"geometry", "studies", "report", "forecasting"} & rooms(evaluated)
    assert not [name for name in evaluated if name.startswith(LABORATORY.name)]
    assert "radii.bounds.provably_robust" in evaluated, "bounds are tried"
    assert len(evaluated) <= 122, len(evaluated)
    assert len(loaded(tmp_path, "--help")) <= 18
    assert len(loaded(tmp_path, "claims")) <= 67
    short = ("--epochs", "1", "--points", "4", "--suite", "fast", "--workers", "0", "--no-forecast")
    assessed = loaded(tmp_path, "assess", "digits", *short)
    assert len(assessed) <= 203, len(assessed)


EVALUATE = """
import sys, torch, radii
network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
radii.evaluate(network, torch.rand(4, 4), torch.arange(4) % 3, "linf:0.1", suite="fast")
print(*sorted(name for name in sys.modules if name.split(".")[0] == "radii"))
"""


def test_evaluate_from_python_loads_what_it_needs() -> None:
    done = subprocess.run([sys.executable, "-c", EVALUATE], check=True, capture_output=True, text=True)
    modules = done.stdout.split()
    assert not {"cli", "runs", "studies", "report", "training", "geometry"} & rooms(modules)
    assert len(modules) <= 86, len(modules)


def test_verify_loads_little_more_than_its_search(tmp_path: Path) -> None:
    """An answer that is found loads no search, and one that takes few regions no compiler: half of its CPU time."""
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    words = ("verify", "net.onnx", "holds.vnnlib")
    everything, found = all_loaded(write_files(tmp_path), *words), loaded(tmp_path, *words)
    assert not {"numba", "scipy", "sklearn", "pandas", "pyarrow"} & set(everything)
    searched = own(everything)
    assert not {"geometry", "studies", "report", "forecasting"} & rooms(searched)
    assert len(searched) <= 120, len(searched)
    assert not {"bounds", "geometry"} & rooms(found)
    assert len(found) <= 52, len(found)


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
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("radii.", "radii_papers.")):
                known = defined(node.module or "")
                absent += [f"{path.name}: {node.module}.{name.name}" for name in node.names if name.name not in known]
    assert absent == []
