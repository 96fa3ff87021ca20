"""Commands of radii in processes of their own, with limits of time and memory; what they leave is seen."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ALLOWED = (0, 1, 2, 130)
UNDECIDED = 3  # of radii verify only


@dataclass(frozen=True)
class Outcome:
    """How a command ended.

    Attributes:
        arguments: the command line.
        code: exit code; -n if signal n ended the process.
        out: standard output.
        err: standard error.
        interrupted: whether it was still running at its limit, and then got a Ctrl-C.
        leftovers: temporary files that it left in its folder.
    """

    arguments: tuple[str, ...]
    code: int
    out: str
    err: str
    interrupted: bool
    leftovers: tuple[str, ...]

    @property
    def faults(self) -> list[str]:
        """What a user would rightly complain about."""
        faults = []
        if self.code not in ALLOWED and not (self.code == UNDECIDED and self.arguments[0] == "verify"):
            faults.append(f"exit code {self.code}")
        asked = {"-v", "--verbose"} & set(self.arguments)  # who asks where an error comes from is shown it
        if "Traceback (most recent call last)" in self.out + self.err and not asked:
            faults.append("a traceback")
        if self.code == 2 and not self.err.strip():
            faults.append("exit code 2 without a sentence")
        if self.leftovers:
            faults.append(f"left behind: {', '.join(self.leftovers[:3])}")
        if any(ord(c) < 32 and c not in "\n\r\t\x1b" for c in self.out + self.err):
            faults.append("control characters on the terminal")
        return faults


@dataclass(frozen=True)
class Child:
    """A command that was started: its process, which leads a group of its own, and the files of its two streams."""

    process: int
    streams: tuple[Path, Path]

    def said(self) -> str:
        """What it has written to both streams."""
        return "".join(path.read_text(errors="replace") for path in self.streams)


def start_command(arguments: list[str], folder: Path, streams: Path, memory: int = 6 << 30) -> Child:
    """Start ``radii ARGUMENTS`` in ``folder``; it writes to the files STREAMS.out and STREAMS.err."""
    files = (streams.with_name(f"{streams.name}.out"), streams.with_name(f"{streams.name}.err"))
    for file in files:
        file.touch()
    process = os.fork()
    if process == 0:
        _in_child(arguments, folder, files, memory)
    return Child(process, files)


def run_command(arguments: list[str], folder: Path, seconds: float = 20.0, memory: int = 6 << 30) -> Outcome:
    """Run ``radii ARGUMENTS`` in ``folder``; after ``seconds`` it gets Ctrl-C, and five times that later a kill."""
    before = set(_part_files(folder))
    child = start_command(arguments, folder, folder.parent / folder.name, memory)
    code, interrupted = _awaited(child.process, seconds)
    out, err = (path.read_text(errors="replace") for path in child.streams)
    left = tuple(sorted(set(_part_files(folder)) - before)) if code in ALLOWED else ()
    return Outcome(tuple(arguments), code, out, err, interrupted, left)


def _in_child(arguments: list[str], folder: Path, files: tuple[Path, Path], memory: int) -> None:
    """Never returns: becomes the command."""
    code = 70
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(folder)
        os.environ["RADII_RUNS"] = str(folder / "runs")
        os.environ["RADII_CACHE"] = str(folder / "cache")
        os.environ["HF_HUB_OFFLINE"] = "1"
        for stream, path in zip((1, 2), files, strict=True):
            opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(opened, stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout, sys.stderr = (open(stream, "w", closefd=False) for stream in (1, 2))  # noqa: SIM115
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))  # not the address space, which JavaScript reserves
        sys.argv = ["radii", *arguments]
        from radii.cli import main, terminal

        terminal.errors = terminal.Console(stderr=True, highlight=False)
        main.run()
    except SystemExit as leave:
        code = leave.code if isinstance(leave.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _awaited(child: int, seconds: float) -> tuple[int, bool]:
    start, interrupted = time.monotonic(), False
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return code, interrupted
        passed = time.monotonic() - start
        if passed > seconds and not interrupted:
            interrupted = True
            os.killpg(child, signal.SIGINT)
        if passed > 6 * seconds + 30:
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.02)


def _part_files(folder: Path) -> list[str]:
    """Temporary files of writers; the work folders of unfinished runs are meant to stay."""
    found = []
    for path in folder.rglob("*"):
        name = path.name
        if (".part" in name or name.endswith(".tmp")) and "work" not in path.parts:
            found.append(str(path.relative_to(folder)))
    return found
