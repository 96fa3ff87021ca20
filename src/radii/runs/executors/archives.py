"""Folders as bytes: how runs and data reach another machine without a shared file system.

An archive is an uncompressed tar of regular files, nothing else. Its entries
are checked before they are written: no links, no devices, no paths that lead
out of the folder, no more bytes than the limit.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path, PurePosixPath

from radii.errors import InputError

LIMIT = 4_000_000_000  # bytes in one archive; data larger than this belongs on every machine, under $RADII_DATA


def pack(path: Path, limit: int = LIMIT) -> bytes:
    """A file, or a folder with all its regular files, as an archive.

    Args:
        path: the file or folder.
        limit: the most bytes that may be sent.

    Raises:
        InputError: there are more bytes than ``limit``.
    """
    files = [path] if path.is_file() else sorted(inner for inner in path.rglob("*") if inner.is_file())
    size = sum(file.stat().st_size for file in files)
    if size > limit:
        raise InputError(
            f"{path} has {size / 1e9:.1f} GB, too much to send to another machine; put it there and name it "
            "(the folder of $RADII_DATA is searched)."
        )
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for file in files:
            entry = tarfile.TarInfo(file.name if path.is_file() else file.relative_to(path).as_posix())
            entry.size = file.stat().st_size
            with file.open("rb") as content:
                tar.addfile(entry, content)
    return archive.getvalue()


def unpack(archive: bytes, folder: Path, limit: int = LIMIT) -> list[Path]:
    """Write the files of an archive into ``folder``.

    Args:
        archive: what :func:`pack` made.
        folder: where the files go.
        limit: the most bytes that may come.

    Raises:
        InputError: the archive is damaged, too large, or holds anything but plain files of the folder.
    """
    if len(archive) > limit + 10_240 + len(archive) // 4:
        size, most = len(archive) / 1e9, limit / 1e9
        raise InputError(f"An archive of {size:.1f} GB came back, at most {most:.1f} were expected.")
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
            entries = tar.getmembers()
            _check(entries, limit)
            return [_write(tar, entry, folder) for entry in entries]
    except tarfile.TarError as error:
        raise InputError(f"An archive cannot be read: {error}.") from error


def _check(entries: list[tarfile.TarInfo], limit: int) -> None:
    for entry in entries:
        path = PurePosixPath(entry.name)
        if not entry.isreg() or path.is_absolute() or not path.parts or ".." in path.parts or "\\" in entry.name:
            raise InputError(f"An archive holds {entry.name!r}, which is no plain file of its folder; it is refused.")
    size = sum(entry.size for entry in entries)
    if size > limit:
        raise InputError(f"An archive holds {size / 1e9:.1f} GB, at most {limit / 1e9:.1f} were expected.")


def _write(tar: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path) -> Path:
    target = folder / entry.name
    target.parent.mkdir(parents=True, exist_ok=True)
    content = tar.extractfile(entry)
    assert content is not None, "regular files have content"
    with target.open("xb") as file:
        while piece := content.read(1 << 20):
            file.write(piece)
    return target
