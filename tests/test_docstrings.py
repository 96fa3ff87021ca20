"""Docstrings: every public function and class says what it is, and every parameter is explained by its name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "radii"
MODULES = sorted(SOURCE.rglob("*.py"))
EXPORTS = re.findall(r"^from \.([\w.]+) import ([\w, ]+)$", (SOURCE / "__init__.pyi").read_text(), re.MULTILINE)


def public(path: Path) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node


def parameters(node: ast.FunctionDef) -> list[str]:
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return [argument.arg for argument in every if not is_explained_by_its_type(argument)]


def is_explained_by_its_type(argument: ast.arg) -> bool:
    """``Annotated[int, "dimension"]``, as in the results of the theory, whose options the command line makes of it."""
    kind = argument.annotation
    return (
        isinstance(kind, ast.Subscript)
        and ast.unparse(kind.value) == "Annotated"
        and isinstance(kind.slice, ast.Tuple)
        and isinstance(kind.slice.elts[1], ast.Constant)
    )


def is_command(node: ast.FunctionDef | ast.ClassDef, path: Path) -> bool:
    """Its parameters are options: ``test_options.py`` tests that each of them has a help text."""
    decorated = any(ast.unparse(decorator).startswith("app.") for decorator in node.decorator_list)
    return path.parent.name == "cli" and (decorated or node.name == path.stem)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_public_functions_explain_every_parameter(path: Path) -> None:
    missing = []
    for node in public(path):
        text = ast.get_docstring(node) or ""
        names = parameters(node) if isinstance(node, ast.FunctionDef) and not is_command(node, path) else []
        absent = [name for name in names if not re.search(rf"\b{name}\b", text)]
        if not text or absent:
            missing.append(f"line {node.lineno}: {node.name} {', '.join(absent) or 'has no docstring'}")
    assert missing == []


@pytest.mark.parametrize(("module", "names"), EXPORTS)
def test_functions_of_the_package_list_their_arguments(module: str, names: str) -> None:
    path = SOURCE / f"{module.replace('.', '/')}.py"
    for node in public(path) if path.exists() else ():
        if isinstance(node, ast.FunctionDef) and node.name in names.split(", "):
            text = ast.get_docstring(node) or ""
            assert "Returns:" in text, f"{module}.{node.name} has no section Returns"
            listed = set(re.findall(r"^    (\w+): ", text.partition("Args:")[2], re.MULTILINE))
            assert set(parameters(node)) <= listed, (
                f"{module}.{node.name} does not list {set(parameters(node)) - listed}"
            )
