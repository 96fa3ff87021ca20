"""``--plot``: every command draws in every format, and refuses another name before it works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

MARKS = {".png": b"\x89PNG", ".svg": b"<svg", ".pdf": b"%PDF", ".html": b"<!doctype html>"}
COMMANDS = {
    "train": ("train", "digits", "--recipe", "ding-mnist", "--budget", "smoke", "steps=2"),
    "audit": ("audit", "digits", "--quick"),
    "certify": ("certify", "nearest", "digits", "--points", 20, "--threat", "l2:0.1"),
    "evaluate": ("evaluate", "RUN", "digits", "--threat", "linf:0.1", "--suite", "pgd", "--points", 10),
}


@pytest.fixture
def words(radii: Callable, tmp_path: Path, request: pytest.FixtureRequest) -> tuple:
    """The command's words; RUN is a network trained for two steps."""
    given = COMMANDS[request.param]
    if "RUN" not in given:
        return given
    assert radii(*COMMANDS["train"]).code == 0
    (run,) = (tmp_path / "runs" / "runs").iterdir()
    return tuple(run.name if word == "RUN" else word for word in given)


@pytest.mark.parametrize("words", COMMANDS, indirect=True)
def test_every_command_draws_in_every_format(words: tuple, radii: Callable, tmp_path: Path) -> None:
    for suffix, mark in MARKS.items():
        target = tmp_path / f"chart{suffix}"
        made = radii(*words, "--plot", target)
        assert made.code == 0, made.err
        assert target.read_bytes()[:200].lstrip().lower().startswith(mark.lower())


@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_no_chart_can_have_is_refused_at_once(command: str, radii: Callable, tmp_path: Path) -> None:
    """Before the model is looked for: there is no run called RUN."""
    said = radii(*COMMANDS[command], "--plot", tmp_path / "chart.bmp")
    assert said.code == 2
    assert "A chart is written as .png, .svg, .pdf or .html, got 'chart.bmp' instead." in said.err
    assert radii(*COMMANDS[command], "--plot", tmp_path).code == 2
