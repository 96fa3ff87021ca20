"""The decoded cache: whole or not there; built once; rebuilt when the source or the copy changes."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from radii.data import cache, sources
from radii.data.formats import _decoding as decoding
from radii.errors import InputError

from .conftest import encoded  # type: ignore[import-not-found]

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


@pytest.mark.parametrize("kind", ["truncated", "flipped bit"])
@pytest.mark.parametrize("file", ["train-x.npy", "test-y.npy", "meta.json", "manifest.json"])
def test_a_damaged_copy_is_made_again(
    parquet_folder: Folder, caplog: pytest.LogCaptureFixture, file: str, kind: str
) -> None:
    before = sources.load(str(parquet_folder[0])).train.digest
    damaged = visible()[0] / file
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content if kind == "flipped bit" else content[:50])
    after = sources.load(str(parquet_folder[0]))
    assert after.train.digest == before
    assert after.train.take(None).digest == before
    assert "is damaged" in caplog.text


def test_another_content_of_equal_size_and_times_is_another_dataset(tmp_path: Path) -> None:
    """What cp -p and rsync -t leave: size and mtime are equal."""
    files = [tmp_path / "a.npz", tmp_path / "b.npz"]
    for number, file in enumerate(files):
        x = np.full((20, 3, 3), number * 100, np.uint8)
        np.savez(file, x_train=x, y_train=np.arange(20) % 2, x_test=x, y_test=np.arange(20) % 2)
        os.utime(file, (1e9, 1e9))
    before = sources.load(str(files[0]))
    shutil.copy2(files[1], files[0])
    after = sources.load(str(files[0]))
    assert (before.train.x[:].max(), after.train.x[:].max()) == (0, 100)
    assert sources.digest(str(files[0])) != (before.train.digest, before.test.digest)


def test_links_are_followed_and_watched(tmp_path: Path) -> None:
    """Class folders, images and a whole dataset that are links to somewhere else."""
    real = tmp_path / "real"
    for number in range(12):
        target = real / ("cat", "dog")[number % 2] / f"{number:02}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(encoded(np.full((4, 4), number, np.uint8)))
    linked = tmp_path / "linked"
    linked.mkdir()
    for name in ("cat", "dog"):
        (linked / name).symlink_to(real / name)
    (linked / "cat" / "up").symlink_to(real / "cat")  # a loop ends
    (tmp_path / "again").symlink_to(linked)
    first = sources.load(str(linked))
    assert len(first.train) + len(first.test) == 12
    assert sources.digest(str(tmp_path / "again")) == sources.digest(str(linked))
    (real / "cat" / "00.png").write_bytes(encoded(np.full((4, 4), 200, np.uint8)))
    assert sources.digest(str(linked)) != (first.train.digest, first.test.digest)
    (real / "dog" / "20.png").write_bytes(encoded(np.full((4, 4), 20, np.uint8)))
    last = sources.load(str(linked))
    assert len(last.train) + len(last.test) == 13


def test_a_killed_decode_leaves_nothing_that_looks_whole(parquet_folder: Folder) -> None:
    program = """
import os, signal, sys
from radii.data import sources
from radii.data.formats import _decoding as decoding
def half(source, out, path, what, steps=()):
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
from radii.data.formats import _decoding as decoding
real = decoding.decode
def slow(source, out, path, what, steps=()):
    with open(sys.argv[2], "a") as log:
        log.write(what + "\\n")
    time.sleep(0.5)
    return real(source, out, path, what)
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
