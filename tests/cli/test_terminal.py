"""What reaches a terminal: no control characters, any encoding, any name; signals end commands with a sentence."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch

from radii import progress
from radii.cli import main, terminal
from radii.cli.main import guarded
from radii.errors import InputError
from radii.files import write_manifest
from radii.runs.planning import train
from radii.training.schedule import Recipe
from radii.untrusted_text import clean

EVIL = {
    "c0": "cat\x1b[2J\x07\x08dog",
    "c1": "cat\x9b31mdog",
    "bidi": "cat\u202egod\u2066",
    "delete": "cat\x7f",
    "lines": "cat\rdog\u2028",
    "half a pair": "cat\udcff",
    "tags": "cat\U000e0041",
}
CONTROLS = (*range(9), *range(11, 27), *range(28, 32), *range(127, 160), 0x202E, 0x2066, 0x2028)
STEERING = {chr(code) for code in CONTROLS}


def started(*words: object, **variables: str) -> subprocess.Popen[bytes]:
    """The installed program."""
    program = [sys.executable, "-P", "-c", "from radii.cli.main import run; run()", *map(str, words)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)} | variables
    return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


@pytest.mark.parametrize("text", EVIL.values(), ids=EVIL)
def test_characters_that_steer_are_shown_as_escapes(text: str) -> None:
    cleaned = clean(text)
    assert cleaned.isprintable()
    assert cleaned.startswith("cat")
    cleaned.encode()
    assert clean("straße\t東京\n👩‍🔬") == "straße\t東京\n👩‍🔬"


@pytest.fixture
def evil_data(tmp_path: Path) -> Path:
    """Data whose class names and file name steer terminals."""
    path = tmp_path / "evil\x1b[31m\u202e.npz"
    x = np.random.default_rng(0).integers(0, 255, (80, 6, 6), np.uint8)
    np.savez(path, x=x, y=np.arange(80) % 2, classes=np.array(["cat\x1b]0;owned\x07", "dog\u202e\x9b2J"]))
    return path


def test_no_command_sends_a_strangers_control_characters(radii: Callable, evil_data: Path, tmp_path: Path) -> None:
    trained = radii("train", evil_data, "epochs=1", "--model", "mlp", "--json", tmp_path / "t.json")
    assert trained.code == 0, trained.err
    run = json.loads((tmp_path / "t.json").read_text())["run"]
    for words in (
        ("evaluate", run, evil_data, "--threat", "l2:0.1", "--points", 6, "--suite", "pgd"),
        ("audit", evil_data),
        ("runs",),
        ("train", f"{evil_data}x", "epochs=1"),
        ("train", "digits\x1b[2J"),
        ("runs", "show", "\x1b[2J"),
        ("\x1b[2J",),
    ):
        outcome = radii(*words)
        sent = set(outcome.out + outcome.err)
        assert not sent & STEERING, (words, sent & STEERING)
        assert "\x1b]" not in outcome.out + outcome.err
        assert "\x1b[2J" not in outcome.out + outcome.err


def test_an_ascii_terminal_gets_every_result(tmp_path: Path) -> None:
    path = tmp_path / "größe.npz"
    x = np.random.default_rng(0).integers(0, 255, (60, 6, 6), np.uint8)
    np.savez(path, x=x, y=np.arange(60) % 2, classes=np.array(["Käse", "東"]))
    ascii_only = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for words in (("audit", path, "--json", "-"), ("audit", path), ("--help",)):
        process = started(*words, **ascii_only)
        out, err = process.communicate(timeout=200)
        assert process.returncode == 0, err.decode()
        out.decode("ascii")
        err.decode("ascii")
        if "--json" in words:
            json.loads(out)


def test_names_that_are_not_utf8_are_told_or_work(tmp_path: Path, radii: Callable) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.npz"))
    x = np.random.default_rng(0).integers(0, 255, (60, 6, 6), np.uint8)
    with path.open("wb") as file:
        np.savez(file, x=x, y=np.arange(60) % 2)
    target = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xfe.json"))
    outcome = radii("audit", path, "--json", target)
    assert outcome.code == 0, outcome.err
    assert json.loads(target.read_text())
    outcome = radii("train", path, "epochs=1", "--model", "mlp")
    assert outcome.code in (0, 2)
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("error", [ImportError("initialization failed"), InputError("ray is not installed"), OSError()])
def test_a_signal_within_an_import_is_an_interruption(
    error: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled modules turn the interruption of their import into an error of their own."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(terminal, "errors", terminal.CleanConsole(stderr=True, highlight=False, width=1000))

    def importing() -> None:
        try:
            main._interrupt(signal.SIGTERM)
        except KeyboardInterrupt:
            raise error from None

    assert main.guarded(importing) == 130
    assert capsys.readouterr().err.startswith("radii: Interrupted.")
    assert main.guarded(lambda: 0) == 0  # the next command starts anew


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (("train", "digits", "epochs=2000", "--model", "lenet5"), signal.SIGTERM),
        (("lr-search", "digits", "epochs=2000", "--model", "lenet5", "--trials", 2, "--workers", 2), signal.SIGINT),
    ],
    ids=["one process", "with workers"],
)
def test_a_signal_ends_a_command_with_a_sentence(tmp_path: Path, words: tuple[object, ...], number: int) -> None:
    process = started(*words, RADII_CHECKPOINT_SECONDS="0")
    deadline = time.monotonic() + 120
    while not list((tmp_path / "runs").glob("work/*/checkpoint.safetensors")):
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert time.monotonic() < deadline
        time.sleep(0.1)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.decode().strip().endswith("radii: Interrupted. What was committed is kept; the same command continues.")
    assert "leaked" not in err.decode()
    assert "Traceback" not in err.decode()
    time.sleep(0.5)
    assert not [child for child in children if _runs(child)]
    assert not list((tmp_path / "runs").glob("runs/*"))


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_one_damaged_run_does_not_hide_the_others(radii: Callable) -> None:
    runs = [train("digits", "mlp", recipe=Recipe(epochs=1), seed=seed).run for seed in range(4)]
    (runs[0].folder / "result.json").write_text("[1]")
    (runs[1].folder / "spec.json").write_text('{"spec": 3}')
    (runs[2].folder / "env.json").unlink()
    listed = radii("runs", "--json", "-")
    assert listed.code == 0, listed.err
    rows = {row["run"]: row["what"] for row in json.loads(listed.out)["runs"]}
    assert all("damaged" in rows[run.id] for run in runs[:3])
    assert "mlp" in rows[runs[3].id]
    checked = radii("runs", "check", "--json", "-")
    assert checked.code == 1
    assert {row["run"] for row in json.loads(checked.out)["damaged"]} == {run.id for run in runs[:3]}
    assert "1 of 4 runs are as they were written." in checked.err
    for run in runs[:3]:
        shown = radii("runs", "show", run.id)
        assert (shown.code, "is damaged" in shown.err) == (2, True)
        assert radii("runs", "delete", run.id, "--yes").code == 0
    assert radii("runs", "check").code == 0


def test_runs_of_two_machines_are_told_apart(radii: Callable) -> None:
    one, two = (train("digits", "mlp", recipe=Recipe(epochs=1), seed=seed).run for seed in range(2))
    environment = two.environment
    environment["threads"], environment["versions"]["torch"] = 8, "1.0"
    (two.folder / "env.json").write_text(json.dumps(environment))
    write_manifest(two.folder)
    compared = radii("runs", "compare", one.id, two.id, "--json", "-")
    fields = {row["field"]: (row["first"], row["second"]) for row in json.loads(compared.out)["differences"]}
    assert fields["environment.threads"] == (1, 8)
    assert fields["environment.versions.torch"][1] == "1.0"
    assert not {"environment.seconds", "environment.cpu_seconds"} & fields.keys()


def test_delete_never_removes_a_folder_of_a_user(radii: Callable, tmp_path: Path) -> None:
    run = train("digits", "mlp", recipe=Recipe(epochs=1)).run
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    for name in ("spec.json", "chapter.tex"):
        (thesis / name).write_text("{}")
    outcome = radii("runs", "delete", thesis, "--yes")
    assert outcome.code == 2
    assert (thesis / "chapter.tex").exists()
    assert radii("runs", "delete", run.folder, "--yes").code == 0
    assert not run.folder.exists()


def test_a_wrong_environment_variable_is_a_sentence_before_the_work(
    radii: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RADII_CHECKPOINT_SECONDS", "RADII_THREADS"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "abc")
            outcome = radii("train", "digits", "epochs=1", "--model", "mlp")
        assert (outcome.code, f"{name} must be" in outcome.err) == (2, True)


@pytest.mark.parametrize("library", ["python", "numpy", "torch"])
def test_too_little_memory_is_a_sentence(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> object:
        if library == "python":
            raise MemoryError
        return np.empty(1 << 60, np.uint8) if library == "numpy" else torch.empty(1 << 60, dtype=torch.uint8)

    assert guarded(command) == 2
    assert "not enough memory" in " ".join(capsys.readouterr().err.split())


def test_names_between_colons_are_not_turned_into_pictures(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show().print("digits+subset:100: :smile:")
    assert capsys.readouterr().out == "digits+subset:100: :smile:\n"


def test_a_signal_while_the_program_starts_is_a_sentence() -> None:
    """Found by kills at random moments: between the first line of the program and its command."""
    program = (
        "import os, signal; from radii.cli import main, terminal; "
        "terminal.prepare_streams = lambda: os.kill(os.getpid(), signal.SIGTERM); main.run()"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    words = [sys.executable, "-P", "-c", program]
    ended = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert ended.returncode == 130
    assert "Interrupted" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_bar_at_80_columns_keeps_count_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    written = StringIO()
    console = terminal.CleanConsole(file=written, force_terminal=True, width=80, highlight=False)
    monkeypatch.setattr(terminal, "errors", console)
    display = terminal.RichDisplay()
    with display.task("training on a dataset with a long name", 2500, "steps") as task:
        task.advance(171, "loss 0.184, accuracy 96.7%, 21,504 inputs/s")
        console.print(display._bars.get_renderable())
    line = next(text for text in written.getvalue().splitlines() if "171/2500" in text)
    assert " left" in line
    assert "━" in line
    assert len(re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", line)) <= 80


def test_a_log_ends_with_how_it_ended() -> None:
    for raised, ends in ((None, "Square: done in 0 s, 45 broken, 0 to go"), (ValueError, "Square: stopped in 0 s")):
        written = StringIO()
        with suppress(ValueError), progress.TextDisplay(written, over=False).task("Square", 100, "points") as task:
            task._told -= 11  # as if the last line were old
            task.advance(45, "45 broken, 0 to go")
            if raised is not None:
                raise raised
        assert written.getvalue().splitlines()[-1].startswith(ends)


def test_a_terminal_wraps_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = "a third of the radius at which papers attack MNIST " * 4
    written = StringIO()
    terminal.CleanConsole(file=written, force_terminal=True, width=80).print(sentence, soft_wrap=True)
    lines = written.getvalue().splitlines()
    assert all(set(line.split()) <= set(sentence.split()) for line in lines)
    file = StringIO()
    terminal.CleanConsole(file=file, width=80).print(sentence, soft_wrap=True)
    assert len(file.getvalue().splitlines()) == 1
