"""Docstrings: every public name says what it is; arguments are listed where a user reads them.

That is: for the names of ``radii``, and for the factories of registries, whose arguments are settings. Elsewhere a
docstring says what name and type do not say.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MODULES = sorted(SOURCE.rglob("*.py"))
STUB = (SOURCE / "radii" / "__init__.pyi").read_text()
EXPORTS = re.findall(r"^from \.([\w.]+) import ([\w, ]+)$", STUB, re.MULTILINE)
REGISTRIES = (
    "models/__init__.py",
    "training/objectives/__init__.py",
    "attacks/by_name.py",
)  # their factories take settings
FACTORIES = sorted(
    {
        match
        for registry in REGISTRIES
        for match in re.findall(r'"radii\.([\w.]+):(\w+)"', (SOURCE / "radii" / registry).read_text())
    }
)


def public(path: Path) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node


def parameters(node: ast.FunctionDef | ast.ClassDef) -> list[str]:
    if isinstance(node, ast.ClassDef):
        starts = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
        return parameters(starts[0]) if starts else []
    return [argument.arg for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]]


def named(module: str, name: str) -> ast.FunctionDef | ast.ClassDef | None:
    path = SOURCE / "radii" / f"{module.replace('.', '/')}.py"
    return next((node for node in public(path) if node.name == name), None) if path.exists() else None


def test_every_public_name_says_what_it_is() -> None:
    silent = [
        f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}"
        for path in MODULES
        for node in public(path)
        if not ast.get_docstring(node)
    ]
    assert silent == []


@pytest.mark.parametrize(("module", "names"), EXPORTS)
def test_functions_of_the_package_list_their_arguments(module: str, names: str) -> None:
    for node in (named(module, name) for name in names.split(", ")):
        if isinstance(node, ast.FunctionDef):
            text = ast.get_docstring(node) or ""
            assert "Returns:" in text, f"{module}.{node.name} has no section Returns"
            listed = set(re.findall(r"^    (\w+): ", text.partition("Args:")[2], re.MULTILINE))
            assert set(parameters(node)) <= listed, f"{module}.{node.name}: {set(parameters(node)) - listed}"


def test_factories_explain_their_settings() -> None:
    missing = []
    for module, name in FACTORIES:
        node = named(module, name)
        if node is not None:
            text = ast.get_docstring(node) or ""
            supplied = {"self", "input_shape", "classes"}  # radii gives these
            absent = [word for word in parameters(node) if word not in supplied and not re.search(rf"\b{word}\b", text)]
            missing += [f"{module}.{name}: {', '.join(absent)}"] if absent else []
    assert missing == []
