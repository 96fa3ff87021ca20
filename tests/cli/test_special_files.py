"""Pipes, sockets and devices where a file is expected: one sentence, never a hang."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

SECONDS = 30  # a pipe that is opened waits for ever
MODEL = "from torch import nn\n\ndef build():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
NAMES = ("f", "f.npz", "f.csv", "f.parquet", "f.onnx", "f.pth", "f.safetensors", "f.pt2", "f.toml", "f.json",
         "f.vnnlib", "f.py", "f.png")  # fmt: skip
COMMANDS = [
    *(("audit", name) for name in ("f", "f.npz", "f.csv", "f.parquet", "f.png", "images", "hf:f.parquet", "s.npz")),
    *(("audit", name) for name in ("/dev/zero", "/dev/null", "/dev/random", "/dev/tty", "named")),
    ("datasets", "f.csv"), ("variants", "f.npz"), ("train", "digits", "--extra", "f.npz"),
    ("train", "digits", "--config", "f.toml"), ("train", "digits", "--config", "/dev/zero"),
    ("study", "run", "f.toml"), ("study", "show", "f.toml"),
    *(("evaluate", name, "digits", "--threat", "l2:1") for name in ("f", "f.onnx", "f.pt2", "f.py:build", "bundle")),
    ("evaluate", "net.py:build", "digits", "--threat", "l2:1", "--weights", "f.pth"),
    ("evaluate", "net.py:build", "digits", "--threat", "l2:1", "--weights", "f.safetensors"),
    ("gate", "net.py:build", "digits", "--require", "clean>=0.5", "--against", "f.json"),
    ("card", "f.json"), ("forecast", "f.json"), ("forecast", "f.csv", "--classes", "10", "--test-points", "100"),
    ("verify", "f.onnx", "p.vnnlib"), ("verify", "f.onnx", "f.vnnlib"), ("verify", "--instances", "f.csv"),
    ("verify", "--instances", "list.csv", "--table", "f.csv"), ("check", "f"),
    ("certify", "f.onnx", "digits"), ("export", "f.onnx", "out.onnx"),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of pipes and a socket under the names of files, with an alarm against waiting."""
    place = tmp_path / "here"
    (place / "images" / "a").mkdir(parents=True)
    (place / "images" / "b").mkdir()
    (place / "bundle").mkdir()
    (place / "data").mkdir()
    special = (*NAMES, "images/a/1.png", "images/b/1.png", "bundle/card.json", "bundle/weights.safetensors")
    for name in (*special, "data/named.npz"):
        os.mkfifo(place / name)
    (place / "net.py").write_text(MODEL)
    (place / "p.vnnlib").write_text("(declare-const X_0 Real)\n")
    (place / "list.csv").write_text("a.onnx,a.vnnlib,1\n")
    monkeypatch.chdir(place)
    monkeypatch.setenv("RADII_DATA", str(place / "data"))
    with socket.socket(socket.AF_UNIX) as end:
        end.bind("s.npz")

        def ring(number: int, frame: FrameType | None) -> None:
            raise TimeoutError("a file was opened that never ends")

        before = signal.signal(signal.SIGALRM, ring)
        signal.alarm(SECONDS)
        yield place
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_what_is_no_file_is_refused(radii: Callable[..., Any], folder: Path, words: tuple[str, ...]) -> None:
    done = radii(*words)
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert "Not a directory" not in done.err
    assert "TimeoutError" not in done.err
    assert "never ends" not in done.err


def test_a_list_of_datasets_passes_over_pipes(radii: Callable[..., Any], folder: Path) -> None:
    assert radii("datasets").code == 0
