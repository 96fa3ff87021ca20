"""Running commands as a user does, in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import typer

from radii.cli import terminal
from radii.cli.main import app, guarded


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture(name="app")
def whole_app() -> typer.Typer:
    """The command line with all its commands."""
    return app


@pytest.fixture
def radii(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """``radii("train", "digits")`` runs the command and returns its exit code and output."""

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(terminal, "errors", terminal.CleanConsole(stderr=True, highlight=False, width=1000))
        code = guarded(lambda: app([str(part) for part in arguments], standalone_mode=False))
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run
