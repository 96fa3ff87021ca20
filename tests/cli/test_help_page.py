"""Help at 80 columns: panels, no types for flags, whole words, and examples that parse."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from radii.cli.help_page import EXAMPLES, GROUPS, PANELS, help_lines
from radii.cli.main import COMMANDS, app, load_command


def context(command: Any, path: str) -> typer.Context:
    root, _, name = path.partition(" ")
    return typer.Context(command, info_name=name, parent=typer.Context(typer.main.get_command(app), info_name=root))


def test_every_command_has_a_group_and_three_examples() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(COMMANDS)
    assert set(EXAMPLES) == {"", *COMMANDS}
    assert all(len(examples) == 3 for examples in EXAMPLES.values())
    named = [name for names in PANELS.values() for name in names]
    assert len(named) == len(set(named))


@pytest.mark.parametrize("example", [example for own in EXAMPLES.values() for example in own])
def test_examples_parse(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every option exists and every value is one that the option takes; nothing is computed."""
    monkeypatch.chdir(tmp_path)
    for name in ("gate.json", "scores.json"):
        (tmp_path / name).write_text("{}")
    _, name, *words = shlex.split(example)
    if name == "help":
        name, words = words[0], []
        assert load_command(name)
        return
    command = load_command(name)
    parsed = command.make_context(name, words)
    below = parsed._protected_args if hasattr(parsed, "_protected_args") else []
    if hasattr(command, "list_commands") and below:
        inner = command.get_command(parsed, below[0])
        assert inner is not None, example
        inner.make_context(below[0], [*parsed.args], parent=parsed)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_80_columns(name: str) -> None:
    command = load_command(name)
    lines = list(help_lines(command, context(command, f"radii {name}"), 80))
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "<" not in text.replace("<=", ""), "no types"
    assert "Examples:" in text
    assert len(lines) <= 110


def test_flags_show_no_value() -> None:
    command = load_command("evaluate")
    lines = list(help_lines(command, context(command, "radii evaluate"), 80))
    assert lines[0] == "Usage: radii evaluate MODEL DATASET [OPTIONS]"
    assert "  --certify / --no-certify" in lines
    assert any(line.startswith("  --points N ") for line in lines)
    assert any(line.startswith("  -q, --quiet  ") for line in lines)
    assert {"Model:", "Data:", "Output:", "Run:"} <= set(lines)


def test_the_list_of_commands_is_grouped(radii: Callable[..., Any]) -> None:
    told = radii("--help").out
    places = [told.index(f"\n{group}:") for group in GROUPS]
    assert places == sorted(places)
    assert told == radii("help").out
    assert radii("help", "train").out == radii("train", "--help").out
    assert isinstance(app, typer.Typer)
