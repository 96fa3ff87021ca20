"""What every program of the command line does: version, short help, quiet, pipes, and guesses of what was meant."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def shell(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A line of bash in which ``radii`` is the program; the exit code is that of radii, also in a pipe."""
    program = f"{sys.executable} -P -c 'from radii.cli.main import run; run()'"
    script = f"set -o pipefail; {line.replace('radii', program, 1)}"
    return subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=os.environ | variables, timeout=120, check=False
    )


def test_the_version_and_short_help(radii: Callable[..., Any]) -> None:
    outcome = radii("--version")
    assert outcome.code == 0
    assert outcome.out.startswith("radii 0.")
    for words in (("-h",), ("evaluate", "-h"), ("study", "-h"), ("--help",)):
        outcome = radii(*words)
        assert outcome.code == 0
        assert "Usage" in outcome.out
        assert outcome.err == ""
    assert "--install-completion" in radii("-h").out


def test_a_closed_pipe_is_no_failure() -> None:
    """head leaves after one line, while the table is still being written."""
    for line in ("radii claims | head -1", "radii --help | head -1"):
        done = shell(line)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        assert "BrokenPipe" not in done.stderr


def test_quiet_says_nothing_but_errors(radii: Callable[..., Any], tmp_path: Path) -> None:
    loud = radii("audit", "digits+subset:100", "--quick")
    assert "audit" in loud.out
    for words in (
        ("audit", "digits+subset:100", "--quick", "--quiet"),
        ("-q", "audit", "digits+subset:100", "--quick"),
    ):
        outcome = radii(*words, "--json", tmp_path / "a.json")
        assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
        assert (tmp_path / "a.json").is_file()
    outcome = radii("audit", "digitss", "--quiet")
    assert outcome.code == 2
    assert "Did you mean 'digits'" in outcome.err
    assert "audit" in radii("audit", "digits+subset:100", "--quick").out, "the next command speaks again"


def test_verbose_tells_where_an_error_comes_from(radii: Callable[..., Any]) -> None:
    assert "Traceback" not in radii("audit", "digitss").err
    assert "Traceback" in radii("audit", "digitss", "-v").err


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("lr=0.1", "there is no setting 'lr' (did you mean optimizer.lr?)"),
        ("epcohs=3", "there is no setting 'epcohs' (did you mean epochs?)"),
        ("optimizer.lrr=1", "there is no setting 'optimizer.lrr' (did you mean optimizer.lr?)"),
        ("width=3", "there is no setting 'width' (did you mean model.width?)"),
        ("zzz=3", "there is no setting 'zzz'"),
    ],
)
def test_settings_are_guessed_with_their_section(radii: Callable[..., Any], word: str, says: str) -> None:
    outcome = radii("train", "digits", word)
    assert outcome.code == 2
    assert says in outcome.err


def test_settings_that_are_written_as_options(radii: Callable[..., Any]) -> None:
    outcome = radii("train", "digits", "--epochs", "3")
    assert outcome.code == 2
    assert "Settings are written KEY=VALUE: epochs=3" in outcome.err
    assert "Did you mean linf:8/255?" in radii("evaluate", "run", "digits", "--threat", "linf:8").err


def test_no_empty_complaint_under_the_help(radii: Callable[..., Any]) -> None:
    outcome = radii()
    assert "radii:" not in outcome.err.replace("Usage: radii", "")


def test_label_and_skip_bad_are_options_of_every_command_with_a_dataset(radii: Callable[..., Any]) -> None:
    for command in ("assess", "audit", "train", "evaluate", "attack", "certify"):
        text = radii(command, "--help").out
        assert "--label" in text
        assert "--skip-bad" in text
    assert "--skip-bad" not in radii("claims", "--help").out
