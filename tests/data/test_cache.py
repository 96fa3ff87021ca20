"""The decoded cache: whole or not there; built once; rebuilt when the source or the copy changes."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from radii.data import cache, sources
from radii.data.formats import decoding
from radii.errors import InputError

Folder = tuple[Path, np.ndarray]


def python(program: str, *arguments: object) -> subprocess.Popen[str]:
    """A process that runs ``program`` with this process's cache and path."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def visible() -> list[Path]:
    """What looks like a decoded dataset."""
    return [path for path in (cache.folder() / "decoded").iterdir() if not path.name.startswith(".")]


def test_the_second_load_decodes_nothing_and_maps_the_file(
    parquet_folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = sources.load(str(parquet_folder[0]))
    monkeypatch.setattr(decoding, "decode", lambda *_: pytest.fail("decoded twice"))
    again = sources.load(str(parquet_folder[0]))
    assert isinstance(again.train.x, np.memmap)
    assert not again.train.x.flags.writeable
    assert (again.train.x == first.train.x).all()
    assert again.train.known_digest is not None
    assert again.train.digest == again.train.take(None).digest  # what is stored is what would be computed


def test_a_changed_source_is_decoded_again(parquet_folder: Folder) -> None:
    folder, _ = parquet_folder
    before = sources.load(str(folder))
    (folder / "train.parquet").write_bytes((folder / "test.parquet").read_bytes())
    after = sources.load(str(folder))
    assert len(after.train) == 12
    assert after.train.digest != before.train.digest


@pytest.mark.parametrize("file", ["train-x.npy", "meta.json"])
def test_a_damaged_copy_is_made_again(parquet_folder: Folder, file: str) -> None:
    before = sources.load(str(parquet_folder[0])).train.digest
    damaged = visible()[0] / file
    damaged.write_bytes(damaged.read_bytes()[:50])
    after = sources.load(str(parquet_folder[0]))
    assert after.train.digest == before
    assert after.train.take(None).digest == before


def test_a_killed_decode_leaves_nothing_that_looks_whole(parquet_folder: Folder) -> None:
    program = """
import os, signal, sys
from radii.data import sources
from radii.data.formats import decoding
def half(source, out, path, what):
    out[: len(source) // 2] = 1
    out.flush()
    os.kill(os.getpid(), signal.SIGKILL)
decoding.decode = half
sources.load(sys.argv[1])
"""
    assert python(program, parquet_folder[0]).wait() == -signal.SIGKILL
    assert visible() == []
    assert list((cache.folder() / "decoded").glob(".*.part"))
    data = sources.load(str(parquet_folder[0]))
    assert (data.train.x == parquet_folder[1].transpose(0, 3, 1, 2)).all()
    assert not list((cache.folder() / "decoded").glob(".*.part"))


def test_racing_loaders_decode_once(parquet_folder: Folder, tmp_path: Path) -> None:
    program = """
import sys, time
from radii.data import sources
from radii.data.formats import decoding
real = decoding.decode
def slow(source, out, path, what):
    with open(sys.argv[2], "a") as log:
        log.write(what + "\\n")
    time.sleep(0.5)
    real(source, out, path, what)
decoding.decode = slow
print(sources.load(sys.argv[1]).train.digest)
"""
    log = tmp_path / "log"
    racers = [python(program, parquet_folder[0], log) for _ in range(3)]
    outputs = [racer.communicate(timeout=60) for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0, 0], outputs
    assert len({out for out, _ in outputs}) == 1
    assert sorted(log.read_text().splitlines()) == ["decoding shapes test", "decoding shapes train"]


def test_a_full_disk_is_a_sentence_and_leaves_nothing(parquet_folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(InputError, match=r"cache .* cannot be written: No space left on device"):
        sources.load(str(parquet_folder[0]))
    assert visible() == []
    assert not list((cache.folder() / "decoded").glob(".*.part"))


def test_a_cache_that_cannot_be_a_folder_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RADII_CACHE", str(tmp_path / "file"))
    with pytest.raises(InputError, match=r"cannot be written.*Set RADII_CACHE"):
        sources.load("digits")


def test_interrupting_leaves_nothing(parquet_folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(decoding, "decode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sources.load(str(parquet_folder[0]))
    assert visible() == []
    assert not list((cache.folder() / "decoded").glob(".*.part"))


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RADII_CACHE", "~/here")
    assert cache.folder() == Path.home() / "here"
    monkeypatch.delenv("RADII_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.folder() == tmp_path / "radii"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    assert cache.folder() == Path.home() / ".cache" / "radii"
