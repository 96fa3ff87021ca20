"""One way to write a file: whole or not at all, on disk before it is named, by any number of writers at once.

The content goes to a new file of a random name in the same folder, is synced
to disk, and takes the place of the old file by one rename. A reader, a kill or
a power cut meets the old content or the new content, never a part of one.
Devices, pipes and sockets cannot be replaced: they are written through.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from radii.errors import InputError

CHARTS = (".png", ".svg", ".pdf", ".html")  # what a chart can be written as
PREFIX, SUFFIX = ".radii-", ".part"  # of an unfinished file; after a kill it may be removed
KERNEL_FOLDERS = ("/dev/", "/proc/")  # names there stand for open files, even where a regular file is behind them
MEMORY_FOLDER = "/dev/shm/"  # holds ordinary files
SYNCING = 16  # files for which a folder waits at once
LINKS = 40  # the longest chain of symbolic links that the kernel follows


def write_whole(path: Path, content: bytes, durable: bool = True) -> None:
    """Write ``content`` to ``path``; on failure the old file is as it was and nothing is left beside it.

    Args:
        path: where to write; missing folders are made, a symbolic link is followed to its target.
        content: all bytes of the file.
        durable: whether to wait until the content is on disk; False where :func:`sync_all` follows for many files.

    Raises:
        InputError: the place cannot be written.
    """
    with whole_file(path, durable) as file:
        file.write(content)


@contextmanager
def whole_file(path: Path, durable: bool = True) -> Iterator[IO[bytes]]:
    """A binary file to fill; it becomes ``path`` when the block ends, and vanishes if the block raises.

    Args:
        path: where to write; missing folders are made, a symbolic link is followed to its target.
        durable: whether the content must survive a power cut; a cache of small notes need not.

    Raises:
        InputError: the place cannot be written.
    """
    try:
        if path.is_dir():
            raise InputError(f"{path} is a folder; give the name of a file to write.")
        if is_special(path):
            with open(os.open(path, os.O_WRONLY | os.O_APPEND), "wb") as file:
                yield file
            return
        target = Path(os.path.realpath(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not os.access(target, os.W_OK):
            raise InputError(f"{path} cannot be written: it is read-only.")
        with _beside(target, durable) as file:
            yield file
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from error


@contextmanager
def _beside(target: Path, durable: bool) -> Iterator[IO[bytes]]:
    """A new file that is renamed to ``target`` at the end of the block; it has the mode of the file it replaces."""
    part = target.with_name(f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), "wb") as file:
            yield file
            file.flush()
            with suppress(FileNotFoundError):
                _take_owner_and_mode(file.fileno(), target)
            if durable:
                os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if durable:
        sync(target.parent)


def _take_owner_and_mode(handle: int, former: Path) -> None:
    known = former.stat()
    with suppress(OSError):  # only root may give a file away
        os.fchown(handle, known.st_uid, known.st_gid)
    os.fchmod(handle, stat.S_IMODE(known.st_mode))


def sync(path: Path) -> None:
    """Wait until the file ``path``, or the names in the folder ``path``, are on disk, where the file system can."""
    handle = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


def sync_all(paths: Iterable[Path]) -> None:
    """Wait until all of ``paths`` are on disk: the disk writes its journal once for all who wait, not for each."""
    with ThreadPoolExecutor(SYNCING) as pool:
        list(pool.map(sync, paths))


def is_special(path: Path) -> bool:
    """Whether ``path`` leads to a device, a pipe, a socket or an open file of the kernel (``/dev/stdout``)."""
    place = path
    for _ in range(LINKS):
        name = os.path.abspath(place)
        if name.startswith(KERNEL_FOLDERS) and not name.startswith(MEMORY_FOLDER):
            return place.exists()
        if not place.is_symlink():
            break
        place = place.parent / os.readlink(place)
    return place.exists() and not place.is_file() and not place.is_dir()


def is_unfinished(path: Path) -> bool:
    """Whether ``path`` is the unfinished file of a killed writer."""
    return path.name.startswith(PREFIX) and path.name.endswith(SUFFIX)


def check_writable(path: Path) -> None:
    """Raise an InputError if ``path`` cannot be written, before any work is done for it."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file to write.")
    if is_special(path):
        if not os.access(path, os.W_OK):
            raise InputError(f"{path} cannot be written: you may not write to it.")
        return
    target = Path(os.path.realpath(path))
    if target.exists() and not os.access(target, os.W_OK):
        raise InputError(f"{path} cannot be written: it is read-only.")
    folder = target.parent
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"{path} cannot be written: {folder} is no folder in which files can be made.")


def check_chart(path: Path) -> None:
    """Raise an InputError if no chart can be written to ``path``, before any work is done for it."""
    if path.suffix.lower() not in CHARTS:
        raise InputError(f"A chart is written as .png, .svg, .pdf or .html, got {path.name!r} instead.")
    check_writable(path)
